"""Signs that a file answers requests in a way that no reader here understands. Pure.

An endpoint may be denied only where every sign of a route was understood: what is found here is not.
"""

from __future__ import annotations

import re

from orchestrator.gsd.sources.code import LANGUAGES, SCRIPTS, Text, ending

_PACKAGES = re.compile(
    r"(?:@?hapi(?:/hapi)?|@apollo/server|apollo-server[\w-]*|@as-integrations/[\w-]+|graphql-(?:yoga|http)"
    r"|express-graphql|mercurius|@trpc/server|@remix-run/[\w-]+|@react-router/[\w-]+"
    r"|@tanstack/(?:react-|solid-)?start|@feathersjs/[\w-]+|@adonisjs/[\w-]+|sails|@loopback/[\w-]+"
    r"|loopback|routing-controllers|tsoa|@tsed/[\w-]+|inversify-express-utils|moleculer(?:-web)?|nitropack"
    r"|@builder\.io/qwik-city|@solidjs/(?:start|router)|solid-start|uWebSockets\.js|find-my-way"
    r"|itty-router|trouter|json-server|parse-server|@strapi/[\w-]+|payload|@keystone-6/[\w-]+"
    r"|@nestjs/(?:graphql|microservices|websockets)|@nestjsx/crud|@orpc/server|@ts-rest/[\w-]+"
    r"|@zodios/[\w-]+|@grpc/grpc-js|grpc|express-openapi[\w-]*|openapi-backend|swagger-routes-express"
    r"|@?fastify[/-]autoload|express-file-routing|http-proxy(?:-middleware)?|express-http-proxy"
    r"|@fastify/http-proxy|aws-lambda|serverless-http|@azure/functions|firebase-functions"
    r"|@google-cloud/functions[\w-]*|oak|vinxi|hattip|telefunc|blitz|convex/server|@redwoodjs/[\w-]+|wasp"
    r"|meteor/[\w-]+|marblejs|@marblejs/[\w-]+|awilix-express|express-ws|@lit-labs/ssr|angular-universal)(?:/[\w./-]{1,80})?"
)
_IMPORTED = re.compile(r"""(?:from|require|import)\s{0,8}\(?\s{0,8}["']([@A-Za-z][^"'\n]{0,100})["']""")
_CALLS = ("Bun.serve", "Deno.serve", "import.meta.glob", "require.context", "addEventListener('fetch'",
          'addEventListener("fetch"', "@JsonController", "@Resolver", "@MessagePattern", "@GrpcMethod",
          "@Crud(")  # fmt: skip
_INHERITED = re.compile(
    r"@(?:Rest)?Controller\b(?:(?!\bclass\s)[\s\S]){0,600}\bclass\s{1,4}\w{1,100}(?:[^{]{0,300}?\b(?:extends|implements)\b"
    r"|\s{0,4}(?:\([^{)]{0,300}\))?\s{0,4}:)"
)
"""A controller that may have routes from what it extends or implements (in Kotlin behind a colon)."""
_READS = re.compile(r"(?:readdirSync|readdir|globSync|glob)\s{0,4}\([^\n]{0,200}[Rr]oute")
_PYTHON = re.compile(
    r"(?m)^[ \t]{0,40}(?:from|import)[ \t]{1,8}(?:tornado|falcon|bottle|sanic|litestar|pyramid|cherrypy|connex(?:ion)"
    r"|ninja|ninja_extra"
    r"|rest_framework|graphene\w*|strawberry|ariadne|flask_(?:restful|restx|restplus|classful|classy|appbuilder|admin|smorest|potion|graphql|security|dance|login_ui)"
    r"|apiflask|eve|hug|web2py|robyn|blacksheep|fastapi_(?:users|crudrouter|utils|class)|classy_fastapi|sqladmin|starlette_admin|masonite|emmett"
    r"|grpc|grpclib|chalice|azure\.functions|functions_framework|dash|gradio|nicegui|reflex|wagtail|cms|allauth|oauth2_provider|tastypie"
    r"|django_hosts|spyne|nameko|muffin|morepath|quart_schema|webapp2|web)\b"
    r"|\bgetattr\(\s{0,4}(?:app|router|bp|blueprint|api)\b|\bimport_module\([^\n]{0,200}(?:rout|view|blueprint|endpoint)|\bi18n_patterns\b"
    r"|\b(?:find_modules|import_string|pkgutil\.(?:iter|walk)_\w+)\b|\bDispatcherMiddleware\b|\bMethodView\b"
)
_GO = re.compile(
    r"\"(?:github\.com/(?:gorilla/rpc|99designs/gqlgen|graphql-go/|graph-gophers/|beego/|astaxie/beego|kataras/iris|revel/|julienschmidt/httprouter"
    r"|valyala/fasthttp|fasthttp/router|gobuffalo/|danielgtaylor/huma|go-kratos/|zeromicro/|twitchtv/twirp|cloudwego/hertz|gogf/gf|dimfeld/"
    r"|bmizerany/pat|uptrace/bunrouter|emicklei/go-restful|go-martini/|gocraft/web|oapi-codegen/|deepmap/oapi-codegen|ant0ine/|pressly/|go-swagger/|go-openapi/)"
    r"|goa\.design/|google\.golang\.org/grpc|connectrpc\.com/|github\.com/grpc-ecosystem/)"
)
_RUST = re.compile(
    r"\buse\s{1,4}(?:warp|poem|poem_openapi|tide|salvo|gotham|rouille|tonic|juniper\w*|async_graphql\w*|ntex|viz|thruster|utoipa_axum|aide|dropshot"
    r"|leptos\w*|dioxus\w*|loco_rs|hyper|tower_web|nickel|iron|trillium|pavex|axum_extra|actix_web_lab|paperclip)\b|\.service\s{0,4}\(|\bweb::(?:scope|resource)\b"
    r"|\.(?:route_service|fallback_service|typed_get|typed_post)\s{0,4}\("
)
_JVM = re.compile(
    r"\b(?:jakarta|javax)\.(?:ws\.rs|servlet)\b|\bio\.(?:micronaut|ktor|vert[x]|javalin|quarkus|grpc|helidon|dropwizard)\b|\bspark\.(?:Spark|Route)"
    r"|\bRouterFunction\b|\bcoRouter\b|@RepositoryRestResource|\bJpaRestResource\b|@WebServlet|\bHttpServlet\b|@(?:Query|Mutation|Schema)Mapping\b"
    r"|\bplay\.api\b|\bakka\.http\b|\borg\.http4s\b|\bRouteBuilder\b|\bstruts2?\b|@(?:HttpExchange|FeignClient|PathVariable\s{0,4}Router)|@Path\s{0,4}\("
    r"|\brouting\s{0,4}\{|\bRouterFunctions\b|spring-boot-starter-data-rest|spring\.data\.rest|\baddViewController\b|\bWebMvcConfigurer\b"
)
_RUBY = re.compile(
    r"\b(?:Grape::API|Roda|Hanami|Padrino|Cuba|Sinatra::Namespace|Rack::(?:URLMap|Builder)|GraphQL::Schema|ActiveAdmin\.register|Rage|Syro)\b"
)
_PHP = re.compile(
    r"\b(?:Symfony\\|Slim\\|CodeIgniter|Laravel\\Lumen|yii\\|Cake\\|Laminas\\|Zend\\|FastRoute|Klein|Phalcon|Nette\\|ApiPlatform|Flight::)|#\[Route\b|@Route\s{0,4}\("
    r"|\bregister_rest_route\b|\badd_action\s{0,4}\(|\$_(?:GET|POST|SERVER|REQUEST)\b|\b(?:Auth|Livewire|Filament|Fortify|Passport|Nova|Folio|Volt)::\w*[rR]oute"
)
# In a language without a reader any word of this trade is a sign.
_OTHER = re.compile(
    r"(?i)\b(?:routes?|router|routing|endpoints?|httpserver|http\.server|controllerbase|controllers?|servlet|webapplication|pipe_through"
    r"|map(?:get|post|put|patch|delete|group|controllers)|http(?:get|post|put|patch|delete)|webserver|http_listen|listenandserve|requesthandler)\b"
)
_QUIET = frozenset({
    ".sql", ".sh", ".bash", ".zsh", ".html", ".htm", ".scss", ".less", ".prisma", ".pyi", ".r", ".tf", ".hh", ".hpp",
    ".zig",
})  # fmt: skip
_BY_ENDING: dict[str, re.Pattern[str]] = {
    ".py": _PYTHON,
    ".go": _GO,
    ".rs": _RUST,
    ".java": _JVM,
    ".kt": _JVM,
    ".kts": _JVM,
    ".rb": _RUBY,
    ".php": _PHP,
}
_SERVICE = re.compile(
    r"(?m)^\s{0,20}service\s{1,8}\w+\s{0,8}\{|\boption\s{0,4}\(google\.api\.http\)|\btype\s{1,4}(?:Query|Mutation)\b"
)


def sign(text: Text) -> int:
    """The line of the first thing in a file that may answer requests and that is not read; 0: none."""
    end = ending(text.path)
    if end in {".proto", ".graphql", ".gql"}:
        pattern = _SERVICE
    elif end in _QUIET or end not in LANGUAGES:
        return 0
    elif end in SCRIPTS:
        return _in_script(text)
    else:
        pattern = _BY_ENDING.get(end, _OTHER)
    found = pattern.search(text.code)
    if found is None and pattern is _JVM and "Controller" in text.code:
        found = _INHERITED.search(text.code)
    return text.line_of(found.start()) if found else 0


def _in_script(text: Text) -> int:
    code = text.code
    for one in _IMPORTED.finditer(code):
        if _PACKAGES.fullmatch(one[1]):
            return text.line_of(one.start())
    for call in _CALLS:
        if call in code:
            return text.line_of(code.find(call))
    inherited = _INHERITED.search(code) if "@Controller" in code else None
    if inherited:
        return text.line_of(inherited.start())
    read = _READS.search(code) if "readdir" in code or "glob" in code else None
    return text.line_of(read.start()) if read else 0
