"""Routes as they are read from the text of each framework, and that no endpoint is denied which something unread serves."""

import pytest

from orchestrator.gsd.evidence.verify_answers import verify_artifact
from orchestrator.gsd.routes import searching as route_search
from orchestrator.gsd.routes.found import every_asked, segments
from orchestrator.gsd.routes.searching import routes
from orchestrator.gsd.sources.text import Source
from tests.support.gsd_code import EXPRESS, FASTAPI, snapshot
from tests.support.gsd_trees import write


def served(root, files):
    return {
        (one.method, one.path, one.line, one.sure)
        for one in routes(Source(write(root, files))).endpoints
        if not one.opaque
    }


EX = "import express from 'express'\nconst app = express()\n"
FA = "from fastapi import FastAPI, APIRouter\napp = FastAPI()\n"
SPRING = 'import org.springframework.web.bind.annotation.*;\n@RestController\nclass C {\n  @GetMapping("/x") void x() {}\n}\n'
NEST = "import { NestFactory } from '@nestjs/core'\nimport { Controller, Get } from '@nestjs/common'\nconst app = await NestFactory.create(M)\n@Controller('u')\nclass U {\n  @Get() x() {}\n}\n"

SERVED = [
    (
        {"a.ts": EX + "app.get('/u', a).post('/u', b)\n  .use('/v1', r)\nconst r = express.Router()\nr.route('/t')\n  .get((q, s) => { s.send(db('t').put(q)); })\n  .post(h)\n"},
        {("GET", "/u", 3, True), ("POST", "/u", 3, True), ("GET", "/v1/t", 7, True), ("POST", "/v1/t", 8, True)},
    ),
    (
        {
            "routes/web.php": "<?php\nRoute::prefix('v1')->group(function () {\n    require __DIR__.'/auth.php';\n});\n",
            "routes/auth.php": "<?php\nRoute::post('/login', h);\n",
            "routes/more.php": "<?php\nRoute::post('/more', h);\n",
        },
        {("POST", "/v1/login", 2, True), ("POST", "/more", 2, False)},
    ),
    (
        {"C.java": '@RestController\n@RequestMapping({"/a", "/b"})\nclass C {\n  static class D {}\n  @GetMapping("/x")\n  void x() {}\n}\nabstract class B {\n  @GetMapping("/y") void y() {}\n}\n'},
        {("GET", "/a/x", 5, True), ("GET", "/b/x", 5, True), ("GET", "/y", 9, False)},
    ),
    (
        {
            "pages/api/one.ts": "export default function h(req, res) {\n  if (req.method !== 'POST') return\n}\n",
            "pages/api/two.ts": "export default function h(req, res) {\n  if (req.method === 'POST') return\n  list(res)\n}\n",
            "pages/api/any.ts": "export default function h(req, res) {}\n",
            "pages/api/named.ts": "const h = async (req, res) => {}\nexport default h\n",
            "pages/api/lib.ts": "import h from 'lib'\nexport default h\n",
        },
        {("POST", "/api/one", 1, True), ("POST", "/api/two", 1, True), ("?", "/api/two", 1, True), ("ANY", "/api/any", 1, True), ("ANY", "/api/named", 2, True), ("?", "/api/lib", 2, True)},
    ),
    (
        {"u.controller.ts": "import { Controller, Get } from '@nestjs/common'\n@Controller('users')\nexport class U {\n  @UseGuards(A)\n  @Get(':id')\n  one() {}\n}\n"},
        {("GET", "/users/:id", 5, True)},
    ),
    (
        {
            "main.ts": "import { NestFactory } from '@nestjs/core'\nconst app = await NestFactory.create(M)\napp.setGlobalPrefix('api')\n",
            "u.ts": "import { Controller, Get } from '@nestjs/common'\n@Controller('users')\nexport class U {\n  @Get()\n  all() {}\n}\n",
        },
        {("GET", "/api/users", 4, True)},
    ),
    (
        {
            "app.py": "from flask import Flask\nfrom bp import auth\napp = Flask(__name__)\napp.register_blueprint(auth, url_prefix='/api')\n",
            "bp.py": "from flask import Blueprint\nauth = Blueprint('auth', __name__, url_prefix='/auth')\n@auth.route('/login', methods=['POST', 'GET'])\ndef login(): ...\n",
        },
        {("POST", "/api/login", 3, True), ("GET", "/api/login", 3, True)},
    ),
    (
        {"a.py": "from flask import Flask\napp = Flask(__name__)\napp.add_url_rule('/x', 'x', f)\napp.add_url_rule('/y', view_func=Y.as_view('y'))\n@app.route('/z', methods=VERBS)\ndef z(): ...\n"},
        {("GET", "/x", 3, True), ("?", "/y", 4, True), ("?", "/z", 5, True)},
    ),
    (
        {
            "shop/settings.py": "ROOT_URLCONF = 'shop.urls'\n",
            "shop/urls.py": "from django.urls import path, include\nmore = [\n    path('a/', v, name='a'),\n    path('b/', v),\n]\nurlpatterns = [path('api/', include('items.urls')), path('more/', include(more))]\n",
            "items/urls.py": "from django.urls import path\nurlpatterns = [path('items/<int:pk>/', v)]\n",
        },
        {("?", "/api/items/<int:pk>", 2, True), ("?", "/more/a", 3, True), ("?", "/more/b", 4, True)},
    ),
    (
        {"a.py": "from starlette.applications import Starlette\nfrom starlette.routing import Route, Mount\nroutes = [\n    Route('/a', a),\n    Route('/c', Class, methods=['POST']),\n    Mount('/v1', routes=[\n        Route('/b', b),\n    ]),\n    Route('/d', Class),\n]\napp = Starlette(routes=routes)\n"},
        {("GET", "/a", 4, True), ("POST", "/c", 5, True), ("GET", "/v1/b", 7, True), ("?", "/d", 9, True)},
    ),
    (
        {"a.py": "from aiohttp import web\nroutes = web.RouteTableDef()\n@routes.get('/a')\nasync def a(r): ...\napp = web.Application()\napp.router.add_post('/b', b)\napp.add_routes([web.get('/c', c)])\napp.add_routes(routes)\n"},
        {("GET", "/a", 3, True), ("POST", "/b", 6, True), ("GET", "/c", 7, True)},
    ),
    (
        {"a.py": FA + "sub = FastAPI()\n@sub.get('/x')\ndef x(): ...\napp.mount('/v1', sub)\n"},
        {("GET", "/v1/x", 4, True)},
    ),
    (
        {
            "app/main.py": "from fastapi import FastAPI\nfrom app.api import router as api\napp = FastAPI()\napp.include_router(api, prefix='/api')\n",
            "app/api/__init__.py": "from app.api.users import router\n",
            "app/api/users.py": "from fastapi import APIRouter\nrouter = APIRouter(prefix='/users')\n@router.get('/me')\ndef me(): ...\n",
        },
        {("GET", "/api/users/me", 3, True)},
    ),
    ({"s.go": 'import "github.com/gin-gonic/gin"\nfunc f(r *gin.Engine) {\n\tv1 := r.Group("/v1", auth)\n\tv1.POST("/x/:id", h)\n}\n'}, {("POST", "/v1/x/:id", 4, True)}),
    (
        {
            "main.go": 'package main\nimport "github.com/gin-gonic/gin"\nfunc main() {\n\tr := gin.Default()\n\tv1 := r.Group("/v1")\n\tusers.Register(v1)\n\tposts.Register(r.Group("/posts"))\n\tr.Run()\n}\n',
            "users/routes.go": 'package users\nimport "github.com/gin-gonic/gin"\nfunc Register(rg *gin.RouterGroup) {\n\tg := rg.Group("/users")\n\tg.GET("/:id", h)\n}\n',
            "posts/routes.go": 'package posts\nimport "github.com/gin-gonic/gin"\nfunc Register(rg *gin.RouterGroup) {\n\trg.GET("/all", h)\n}\n',
        },
        {("GET", "/v1/users/:id", 5, True), ("GET", "/posts/all", 4, True)},
    ),
    (
        {
            "main.go": 'package main\nimport "github.com/go-chi/chi/v5"\nfunc main() {\n\tr := chi.NewRouter()\n\tr.Route("/a", func(r chi.Router) {\n\t\tr.Get("/b", h)\n\t})\n\tr.Mount("/users", users.Router())\n\thttp.ListenAndServe(":1", r)\n}\n',
            "users/users.go": 'package users\nimport "github.com/go-chi/chi/v5"\nfunc Router() http.Handler {\n\tr := chi.NewRouter()\n\tr.Get("/me", h)\n\treturn r\n}\n',
        },
        {("GET", "/a/b", 6, True), ("GET", "/users/me", 5, True)},
    ),
    (
        {"main.go": 'package main\nimport "net/http"\nfunc main() {\n\tmux := http.NewServeMux()\n\tmux.HandleFunc("GET /items/{id}", h)\n\tmux.HandleFunc("/other", h)\n\thttp.HandleFunc("/plain", h)\n\thttp.ListenAndServe(":1", mux)\n}\n'},
        {("GET", "/items/{id}", 5, True), ("?", "/other", 6, True), ("?", "/plain", 7, True)},
    ),
    ({"C.java": '@RestController\n@RequestMapping("/api")\npublic class C {\n  @PostMapping({"/x/{id}", "/y"})\n  public void x() {}\n}\n@Controller class D {\n  @GetMapping("/d")\n  void d() {}\n}\n'}, {("POST", "/api/x/{id}", 4, True), ("POST", "/api/y", 4, True), ("GET", "/d", 8, True)}),
    ({"config/routes.rb": "Rails.application.routes.draw do\n  namespace :api do\n    resources :todos, only: [:index] do\n      collection do\n        get :search\n      end\n      get :mine, on: :collection\n      member do\n        post :done\n      end\n    end\n    post 'login', to: 's#c'\n  end\n  resources :a, :b, only: [:create]\nend\n"}, {("GET", "/api/todos", 3, True), ("GET", "/api/todos/search", 5, True), ("GET", "/api/todos/mine", 7, True), ("POST", "/api/todos/:todo_id/done", 9, True), ("POST", "/api/login", 12, True), ("POST", "/a", 14, True), ("POST", "/b", 14, True)}),
    ({"f.ts": "import Fastify from 'fastify'\nconst app = Fastify()\napp.register(todos, { prefix: '/v1' })\nasync function todos(fastify) {\n  fastify.get('/t', async () => 1)\n}\n"}, {("GET", "/v1/t", 5, True)}),
    ({"f.ts": "import Fastify from 'fastify'\nconst app = Fastify()\napp.route({ method: 'POST', url: '/r', handler: h })\n"}, {("POST", "/r", 3, True)}),
    ({"h.ts": "import { Hono } from 'hono'\nconst api = new Hono()\napi.get('/t', c => c)\nconst app = new Hono()\napp.route('/v1', api)\n"}, {("GET", "/v1/t", 3, True)}),
    (
        {
            "index.ts": "import { Hono } from 'hono'\nimport users from './users'\nconst app = new Hono().basePath('/api')\napp.route('/users', users)\nexport default app\n",
            "users.ts": "import { Hono } from 'hono'\nconst app = new Hono()\napp.get('/:id', c => c)\nexport default app\n",
        },
        {("GET", "/api/users/:id", 3, True)},
    ),
    (
        {"k.js": "const Koa = require('koa')\nconst Router = require('@koa/router')\nconst app = new Koa()\nconst router = new Router({ prefix: '/api' })\nrouter.get('/a', h)\nconst sub = new Router()\nsub.post('/b', h)\nrouter.use('/sub', sub.routes(), sub.allowedMethods())\napp.use(router.routes()).use(router.allowedMethods())\n"},
        {("GET", "/api/a", 5, True), ("POST", "/api/sub/b", 7, True)},
    ),
    ({"server/api/users/[id].get.ts": "export default defineEventHandler(() => 1)\n", "server/api/all.ts": "export default defineEventHandler(() => 1)\n"}, {("GET", "/api/users/[id]", 1, True), ("ANY", "/api/all", 1, True)}),
    ({"src/pages/api/feed.ts": "import type { APIRoute } from 'astro'\nexport const GET: APIRoute = () => new Response('')\n"}, {("GET", "/api/feed", 2, True)}),
    (
        {
            "src/main.rs": 'mod users;\n#[get("/")]\nfn index() {}\n#[launch]\nfn launch() -> _ {\n    rocket::build().mount("/api", routes![index, users::list])\n}\n',
            "src/users.rs": 'use rocket::get;\n#[get("/users/<id>")]\npub fn list(id: u8) {}\n',
        },
        {("GET", "/api", 2, True), ("GET", "/api/users/<id>", 2, True)},
    ),
    ({"src/main.rs": 'use actix_web::{get, web, App};\n#[get("/users")]\nasync fn users() {}\nfn main() {\n    App::new().service(web::scope("/api").service(users));\n}\n'}, {("GET", "/users", 2, False)}),
    (
        {
            "routes/api.php": "<?php\nRoute::get('/a', [A::class, 'a']);\nRoute::prefix('admin')->middleware('auth')->group(function () {\n    Route::match(['get', 'post'], '/b', 'B@b');\n    Route::group(['prefix' => 'deep'], function () {\n        Route::delete('c/{id?}', C::class);\n    });\n});\n",
        },
        {("GET", "/api/a", 2, True), ("GET", "/api/admin/b", 4, True), ("POST", "/api/admin/b", 4, True), ("DELETE", "/api/admin/deep/c/{id?}", 6, True)},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), SERVED)
def test_routes_of_frameworks(tmp_path, files, expected):
    assert served(tmp_path, files) == expected


DJ = "from django.urls import path, include\n"
DJANGO = {"s/settings.py": "ROOT_URLCONF = 's.urls'\n"}
# Each serves what is asked for (or may) in a way that the readers do not follow to its end.
HIDDEN = {
    "a django rest router": (
        {
            "s/settings.py": "ROOT_URLCONF = 's.urls'\n",
            "s/urls.py": "from django.urls import path, include\nfrom rest_framework.routers import DefaultRouter\nrouter = DefaultRouter()\nrouter.register(r'users', UserViewSet)\nurlpatterns = [path('api/', include(router.urls))]\n",
        },
        "GET /api/users",
    ),
    "urls of a package": (
        {"s/urls.py": "from django.contrib import admin\nfrom django.urls import path, include\nurlpatterns = [path('admin/', admin.site.urls), path('accounts/', include('pkg.urls'))]\n"},
        "POST /accounts/login",
    ),
    "the admin's own pages": (
        {"s/urls.py": "from django.contrib import admin\nfrom django.urls import path\nurlpatterns = [path('admin/', admin.site.urls)]\n"},
        "GET /admin/logout",
    ),
    "a router of the project's own": (
        {**DJANGO, "s/urls.py": DJ + "from s.api import router\nurlpatterns = [path('api/', include(router.urls))]\n", "s/api.py": "from .base import Router\nrouter = Router()\nrouter.register(r'accounts', V)\n", "s/base.py": "class Router: ...\n"},
        "GET /api/accounts/5",
    ),
    **{
        f"django's patterns {what}": ({**DJANGO, "s/urls.py": DJ + text}, "POST /bulk")
        for what, text in {
            "of a router": "urlpatterns = router.urls\n",
            "and a router's": "urlpatterns = [path('a/', v)] + router.urls\n",
            "and more of a router": "urlpatterns = [path('a/', v)]\nurlpatterns += router.urls\n",
            "with a star": "urlpatterns = [path('a/', v), *crud('x')]\n",
            "of a call": "urlpatterns = [path('a/', v), crud('x')]\n",
            "on a condition": "urlpatterns = [path('a/', v)] if A else more()\n",
            "behind many": "urlpatterns = [\n" + "    path('a/', v),\n" * 400 + "    crud('x'),\n]\n",
            "with a list of unknown": "urlpatterns = [path('a/', v)]\nurlpatterns.extend(crud('x'))\n",
            "with an unknown one": "urlpatterns = [path('a/', v)]\nurlpatterns.append(crud('x'))\n",
        }.items()
    },
    "a view of django for any method": ({**DJANGO, "s/urls.py": DJ + "urlpatterns = [path('x/', V.as_view())]\n"}, "DELETE /x"),
    "a decorator called by hand": ({"a.py": FA + "@app.get('/a')\ndef a(): ...\nfor name, handler in more: app.get(name)(handler)\n"}, "GET /b"),
    "what a controller of nest inherits": (
        {"a.ts": "import { Controller, Get } from '@nestjs/common'\nimport { Base } from 'lib'\n@Controller('a')\nexport class A extends Base<T> {\n  @Get() x() {}\n}\n"},
        "DELETE /a",
    ),
    "what a controller of spring implements": (
        {"A.java": 'import org.springframework.web.bind.annotation.*;\n@RestController\nclass A implements UsersApi {\n  @GetMapping("/a") String a() { return ""; }\n}\n'},
        "DELETE /a",
    ),
    "patterns in another language": (
        {"s/urls.py": "from django.contrib import admin\nfrom django.urls import path\nfrom django.conf.urls.i18n import i18n_patterns\nurlpatterns = i18n_patterns(path('x/', v))\n"},
        "GET /de/x",
    ),
    "a scope of actix": (
        {"src/main.rs": 'use actix_web::{get, web, App};\n#[get("/users")]\nasync fn users() {}\nfn main() {\n    App::new().service(web::scope("/api").service(users));\n}\n'},
        "GET /api/users",
    ),
    "a resource of actix": ({"src/main.rs": 'use actix_web::{web, App};\n#[get("/a")]\nfn a() {}\nfn main() { App::new().service(web::resource(PATH)); }\n'}, "GET /users"),
    "a group of laravel in another file": (
        {
            "routes/web.php": "<?php\nRoute::get('/a', h);\nRoute::prefix('v2')->group(base_path('routes/more.php'));\n",
            "routes/more.php": "<?php\nRoute::get('/users', h);\n",
        },
        "GET /v2/users",
    ),
    "a resource of laravel": ({"routes/web.php": "<?php\nRoute::resource('photos', P::class);\n"}, "DELETE /photos/{photo}"),
    "a macro of laravel": ({"routes/web.php": "<?php\nRoute::get('/a', h);\nAuth::routes();\n"}, "POST /login"),
    "a constant": ({"a.ts": EX + "app.get(API + '/users', h)\n"}, "GET /api/users"),
    "a template": ({"a.ts": EX + "app.get(`${API}/users`, h)\n"}, "GET /api/users"),
    "a constant prefix": ({"a.ts": EX + "const r = express.Router()\nr.get('/x', h)\napp.use(API_PREFIX, r)\n"}, "GET /api/x"),
    "an f-string": ({"a.py": FA + "@app.get(f'{API}/users')\ndef u(): ...\n"}, "GET /api/users"),
    "a concatenation in python": ({"a.py": FA + "@app.get(API + '/users')\ndef u(): ...\n"}, "GET /api/users"),
    "a loop over a table": ({"a.ts": EX + "for (const r of table) app.get(r.path, r.handler)\n"}, "GET /users"),
    "a method by name": ({"a.ts": EX + "app[method](path, handler)\n"}, "GET /users"),
    "a loop over routers": ({"a.py": FA + "for r in routers:\n    app.include_router(r)\n"}, "GET /users"),
    "routers of a package": ({"a.ts": EX + "import { ExpressAuth } from '@auth/express'\napp.use('/auth/*', ExpressAuth({}))\n"}, "POST /auth/signin"),
    **{
        f"a server handed to {what}": ({"a.py": FA + text}, "GET /metrics")
        for what, text in {
            "a package": "from prometheus_fastapi_instrumentator import Instrumentator\nInstrumentator().instrument(app).expose(app)\n",
            "a package's function": "from lib import attach\nattach(app)\n",
            "a package's function of a usual name": "from lib import register\nregister(app)\n",
            "a package by keyword": "import lib\nlib.attach(\n    app=app,\n    path=P,\n)\n",
            "an extension": "from lib import Monitor\nMonitor(app)\n",
            "an extension that waits": "from lib import Monitor\nmonitor = Monitor()\nmonitor.init_app(app)\n",
            "an extension of another file": "from .extensions import monitor\nmonitor.init_app(app)\n",
            "what it makes": "from lib import Monitor\nm = Monitor()\nm.watch(app)\n",
            "one from where it was given": "from lib import attach\ndef setup(application, app):\n    attach(app)\n",
            "a list of servers": "from lib import attach\nattach([app])\n",
        }.items()
    },
    **{
        f"a server of javascript handed to {what}": ({"a.ts": EX + text}, "GET /metrics")
        for what, text in {
            "a package": "import { attach } from 'lib'\nattach(app)\n",
            "a class": "import { Panel } from 'lib'\nnew Panel(app, { path })\n",
            "an object": "import { Panel } from 'lib'\nconst p = new Panel()\nawait p.applyMiddleware({ app, path: P })\n",
            "a required package": "require('lib')(app)\n",
        }.items()
    },
    **{
        f"a server of {what}": (files, "GET /overview")
        for what, files in {
            "python for a package's way to bind": {"a.py": FA + "import dashboard\ndashboard.bind(app)\n"},
            "python for a package's way to register": {"a.py": FA + "import lib\nlib.register(app)\n"},
            "python for an object made elsewhere": {"a.py": FA + "from ext import thing\nthing.setup(app)\n", "ext.py": "from lib import Thing\nthing = Thing()\n"},
            "python in a class": {"a.py": "from fastapi import FastAPI\nfrom lib import attach\nclass S:\n    def __init__(self):\n        self.app = FastAPI()\n        attach(self.app)\n"},
            "python by another name": {"a.py": FA + "from lib import attach\napplication = app\nattach(application)\n"},
            "python from its maker": {"a.py": FA + "def create_app(): return app\n", "b.py": "from a import create_app\nfrom lib import attach\nserver = create_app()\nattach(server)\n"},
            "javascript in a file without a framework": {"a.js": EX + "require('./b')(app)\n", "b.js": "const panel = require('panel')\nmodule.exports = (app) => {\n  panel.attach(app)\n}\n"},
            "javascript in a class": {"a.ts": "import express from 'express'\nimport { attach } from 'lib'\nclass S {\n  constructor() {\n    this.app = express()\n    attach(this.app)\n  }\n}\n"},
            "javascript by another name": {"a.ts": EX + "import { attach } from 'lib'\nconst server = app\nattach(server)\n"},
        }.items()
    },
    **{
        f"what a framework serves by itself: {asked}": (files, asked)
        for asked, files in {
            "GET /docs": {"a.py": FA},
            "GET /v1/openapi.json": {"a.py": FA},
            "GET /static/site.css": {"a.py": "from flask import Flask\napp = Flask(__name__)\n"},
            "GET /actuator/health": {"C.java": SPRING},
            "POST /login": {"C.java": SPRING, "S.java": "class S { Chain c(HttpSecurity h) { return h.formLogin(defaults()).build(); } }\n"},
            "GET /rails/info": {"config/routes.rb": "Rails.application.routes.draw do\n  resources :a\nend\n"},
            "GET /sanctum/csrf-cookie": {"routes/web.php": "<?php\nRoute::get('/a', h);\n"},
            "GET /api-json": {"m.ts": NEST + "SwaggerModule.setup('api', app, made)\n"},
            "GET /api/x": {"m.ts": NEST + "SwaggerModule.setup('api', app, made)\n"},
        }.items()
    },
    "an imported server handed on": ({"a.ts": EX + "export { app }\n", "b.ts": "import { app } from './a'\nimport { attach } from 'lib'\nattach(app)\n"}, "GET /metrics"),
    "routes of a package": ({"a.ts": EX + "import { auth } from 'express-openid-connect'\napp.use(auth(config))\n"}, "GET /callback"),
    "a handler below a prefix": ({"a.ts": EX + "app.use('/graph', (req, res) => res.end())\n"}, "POST /graph/q"),
    "files read at the start": ({"a.ts": EX + "for (const f of fs.readdirSync('./routes')) app.use(require('./routes/' + f))\n"}, "GET /users"),
    "graphql beside": ({"a.ts": EX + "app.get('/a', h)\n", "g.ts": "import { ApolloServer } from '@apollo/server'\n"}, "POST /anything"),
    "trpc beside": ({"a.ts": EX + "app.get('/a', h)\n", "g.ts": "import { initTRPC } from '@trpc/server'\n"}, "POST /trpc/x"),
    "grpc beside": ({"a.ts": EX, "x.proto": 'syntax = "proto3";\nservice Users {\n  rpc Get (A) returns (B);\n}\n'}, "GET /users"),
    "hapi": ({"a.ts": EX, "b.js": "const Hapi = require('@hapi/hapi')\nserver.route(TABLE)\n"}, "GET /users"),
    "an openapi file that makes the routes": ({"a.ts": EX + "app.get('/a', h)\n", "openapi.yaml": "paths:\n  /users:\n    get: {}\n"}, "GET /users"),
    "remix pages": ({"a.ts": EX, "app/routes/dashboard.tsx": "export default function D() { return 1 }\n"}, "GET /dashboard"),
    "a page of next": ({"app/api/x/route.ts": "export function GET() {}\n", "app/dashboard/page.tsx": "export default function D() {}\n"}, "route /dashboard"),
    "a route file that passes on": ({"app/api/x/route.ts": "export function GET() {}\n", "app/api/[name]/route.ts": "export * from './handlers'\n"}, "PUT /api/x"),
    "a base path of next": ({"app/x/route.ts": "export function GET() {}\n", "next.config.js": "module.exports = { basePath: '/docs' }\n"}, "GET /docs/x"),
    "a path of all spring routes": ({"C.java": '@RestController\nclass C {\n  @GetMapping("/x")\n  void x() {}\n}\n', "src/main/resources/application.properties": "server.servlet.context-path=/api\n"}, "GET /api/x"),
    "a constant of spring": ({"C.java": '@RestController\n@RequestMapping(Paths.USERS)\nclass C {\n  @GetMapping("/x")\n  void x() {}\n}\n'}, "GET /users/x"),
    "asp.net": ({"a.ts": EX, "C.cs": '[ApiController]\n[Route("[controller]")]\nclass UsersController : ControllerBase {\n  [HttpGet] public int All() => 1;\n}\n'}, "GET /users"),
    "minimal apis of asp.net": ({"a.ts": EX, "P.cs": "var app = builder.Build();\napp.MapGet(Path, () => 1);\n"}, "GET /users"),
    "phoenix": ({"a.ts": EX, "router.ex": 'defmodule R do\n  use Web, :router\n  resources "/users", C\nend\n'}, "GET /users/new"),
    "a concern of rails": ({"config/routes.rb": "Rails.application.routes.draw do\n  resources :a, concerns: :commentable\nend\n"}, "GET /a/:id/comments"),
    "an engine of rails": ({"config/routes.rb": "Rails.application.routes.draw do\n  mount Sidekiq::Web => '/jobs'\nend\n"}, "GET /jobs/busy"),
    "devise": ({"config/routes.rb": "Rails.application.routes.draw do\n  devise_for :users\nend\n"}, "POST /users/sign_in"),
    "a loop of rails": ({"config/routes.rb": "Rails.application.routes.draw do\n  %w[a b].each do |x|\n    get x, to: 'p#x'\n  end\nend\n"}, "GET /a"),
    "a flask method view": ({"a.py": "from flask import Flask\nfrom flask.views import MethodView\napp = Flask(__name__)\nregister(app, Users)\n"}, "GET /users"),
    "flask restful": ({"a.py": "from flask import Flask\nfrom flask_restful import Api\napi = Api(Flask(__name__))\napi.add_resource(Users, PATH)\n"}, "GET /users"),
    "a subtree of net/http": ({"main.go": 'package main\nimport "net/http"\nfunc main() {\n\thttp.HandleFunc("/items/", h)\n\thttp.ListenAndServe(":1", nil)\n}\n'}, "GET /items/42/name"),
    "a router that only a parameter is": ({"a.ts": "import { Router } from 'express'\nexport function put(r: Router) {\n  r.get('/users', h)\n}\n"}, "GET /users"),
    "a router without a mount": ({"a.ts": "import { Router } from 'express'\nconst r = Router()\nr.get('/', list)\n"}, "GET /users"),
    "a parameter on a router without a mount": ({"a.ts": "import { Router } from 'express'\nconst r = Router()\nr.get('/:id/items', list)\n"}, "GET /users/42/items"),
    "a parameter that may be left out": ({"a.ts": EX + "app.get('/users/:id?', h)\n"}, "GET /users"),
    "a part of a segment": ({"a.ts": EX + "app.get('/files/:name.json', h)\n"}, "GET /files/a.json"),
    "a pattern": ({"a.ts": EX + "app.get(/^\\/u/, h)\n"}, "GET /users"),
    "a catch-all": ({"a.ts": EX + "app.get('/files/*', h)\n"}, "GET /files/a/b"),
    "a name elsewhere": ({"a.ts": EX + "app.get('/a', h)\n", "b.ts": "table.add({ url: '/refunds' })\n"}, "GET /refunds"),
    "a class that is called like it": ({"a.ts": EX + "app.get('/a', h)\n", "b.ts": "export class RefundController {}\n"}, "GET /refunds"),
    "a file that is called like it": ({"a.ts": EX + "app.get('/a', h)\n", "web/refunds.html": "<p>"}, "GET /refunds"),
    "source behind a link": ({"a.ts": EX + "app.get('/a', h)\n"}, "GET /users"),
    "nest with versions": ({"m.ts": "import { Controller } from '@nestjs/common'\napp.enableVersioning()\n@Controller('a')\nclass A { @Get() x() {} }\n"}, "GET /v1/a"),
    "an annotation with a constant": ({"m.ts": "import { Controller } from '@nestjs/common'\n@Controller(PATH)\nclass A { @Get('x') x() {} }\n"}, "GET /users/x"),
}  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
def test_what_something_unread_may_serve_is_never_denied_nor_claimed(tmp_path, name):
    files, asked = HIDDEN[name]
    root = write(tmp_path / "p", files)
    if name == "source behind a link":
        write(tmp_path / "away", {"more.ts": "x\n"})
        (root / "lib").symlink_to(tmp_path / "away")
    found = verify_artifact(snapshot(root), must_exist=asked, check_type="endpoint")
    assert found["exists"] is None, found["reason"]


DENIED = [
    (EXPRESS, "POST /api/refunds"),
    (EXPRESS, "PUT /health"),
    (FASTAPI, "GET /api/refunds"),
    (SERVED[7][0], "GET /v2/zebra"),
    ({"a.ts": EX + "app.get('*', page)\n"}, "POST /api/refunds"),
    ({"main.go": 'package main\nimport "github.com/gin-gonic/gin"\nfunc main() {\n\tr := gin.Default()\n\tr.GET("/a", h)\n}\n'}, "GET /refunds"),
    ({"config/routes.rb": "Rails.application.routes.draw do\n  resources :a\nend\n"}, "GET /refunds"),
    ({"routes/web.php": "<?php\nRoute::get('/a', h);\n"}, "GET /refunds"),
    ({"app/api/x/route.ts": "export function GET() {}\n"}, "POST /api/x"),
    ({**DJANGO, "s/urls.py": DJ + "urlpatterns = [\n    path('a/', v, {'x': [1]}),  # one, two\n    path('b/', include('t.urls')),\n] + [path('c[/', v)]\nurlpatterns += [re_path(r'^d$', V.as_view())]\nurlpatterns.append(path('e/', v))\n",
      "t/urls.py": "from django.urls import path\nurlpatterns: list[object] = [path('x/', v)]\n"}, "GET /refunds"),
    ({"a.ts": "import { Controller, Get } from '@nestjs/common'\n@Controller('a')\nexport class A {\n  @Get() x() {}\n}\n"}, "DELETE /a"),
    *(
        ({"a.py": FA + text, "b.py": "def attach(app): ...\nclass Kit: ...\ndb = SQLAlchemy()\n"}, "GET /refunds")
        for text in (
            "import uvicorn\nuvicorn.run(app, port=1)\n",
            "from flask_cors import CORS\nCORS(app)\n",
            "from b import attach\nattach(app)\n",
            "import b\nb.attach(app)\n",
            "from b import Kit\nkit = Kit()\nkit.put(app)\n",
            "from b import db\ndb.init_app(app)\n",
            "def attach(app):\n    return (app, 1)\nattach(app)\n",
            "class A:\n    def run(self):\n        self.attach(app)\n",
            "from starlette.middleware.gzip import GZipMiddleware\nwrapped = GZipMiddleware(app)\n",
            "if (app):\n    kept = {'of': app}\n",
            "from tortoise.contrib.fastapi import register_tortoise\nregister_tortoise(app, db_url=U)\n",
            "from lib import Instrumentator\nInstrumentator().instrument(app)\n",
            "import aiohttp_jinja2\naiohttp_jinja2.setup(app, loader=L)\n",
        )
    ),
    *(
        ({"a.py": FA, "cli.py": text}, "GET /refunds")
        for text in (
            "import typer\napp = typer.Typer()\nother.add_typer(app, name='x')\n",
            "from PyQt6.QtWidgets import QApplication\napp = QApplication([])\nloop = QEventLoop(app)\n",
        )
    ),
    *(
        ({"a.ts": EX + text, "b.ts": "export function attach(app) {}\n"}, "GET /refunds")
        for text in (
            "import http from 'http'\nhttp.createServer(app).listen(1)\n",
            "import { attach } from './b'\nattach(app)\n",
            "require('./b')(app)\n",
            "require('http').createServer(app).listen(1)\n",
            "const server = require('http').Server(app)\n",
            "const server = new http.Server(app)\n",
            "app.get('/x', async (req, res) => {\n  const app = await App.one(1)\n  res.json(app)\n  res.status(200).send(app)\n})\n",
            "const attach = (app) => { app.listen(1) }\nattach(app)\n",
            "function attach(app) {\n  return app\n}\nexport { app }\nmodule.exports = { app, attach }\n",
            "class A {\n  attach(app) {\n    this.kept = [app]\n  }\n}\n",
        )
    ),
    ({"m.ts": NEST + "SwaggerModule.setup('api', app, made)\n"}, "GET /refunds"),
    ({**EXPRESS, "README.md": "POST /api/refunds", "tests/r.test.ts": "post('/api/refunds')\n"}, "POST /api/refunds"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "asked"), DENIED)
def test_an_endpoint_is_denied_where_all_was_understood_and_nothing_names_it(tmp_path, files, asked):
    found = verify_artifact(snapshot(write(tmp_path, files)), must_exist=asked, check_type="endpoint")
    assert (found["exists"], found["confidence"]) == (False, "medium"), found["reason"]


# Each has something that looks like the endpoint and is not.
NOT_SERVED = {
    "below another prefix": ({"a.ts": EX + "const r = express.Router()\nr.get('/login', h)\napp.use('/api', r)\n"}, "GET /login"),
    "on a router nobody mounts": ({"a.ts": EX + "const r = express.Router()\nr.get('/login', h)\n"}, "GET /login"),
    "on a server that is mounted": ({"a.ts": EX + "const api = express()\napi.get('/login', h)\napp.use('/v1', api)\n"}, "GET /login"),
    "in an example": ({"examples/a.ts": EX + "app.get('/login', h)\n"}, "GET /login"),
    "asked of a server": ({"a.ts": "import Link from 'next/link'\nconst api = axios.create()\napi.get('/login', { params })\n"}, "GET /login"),
    "a client of spring": ({"C.java": '@FeignClient("x")\ninterface C {\n  @GetMapping("/login")\n  void x();\n}\n'}, "GET /login"),
    "below nest's prefix": (SERVED[1][0], "GET /users"),
    "below a base path": ({"app/x/route.ts": "export function GET() {}\n", "next.config.js": "module.exports = { basePath: '/docs' }\n"}, "GET /x"),
    "a group of gin": (SERVED[10][0], "GET /all"),
    "a router that came in": ({"a.py": "from fastapi import FastAPI\nfrom lib import router\n@router.get('/login')\ndef x(): ...\n"}, "GET /login"),
    "a list of django below a prefix": (SERVED[4][0], "GET /a"),
    "a method that its handler decides": ({"main.go": 'package main\nimport "net/http"\nfunc main() {\n\thttp.HandleFunc("/login", h)\n}\n'}, "POST /login"),
    "one method of two": ({"a.ts": EX + "app.get('/login', h)\n"}, "GET and POST /login"),
    "middleware of that name": ({"a.ts": EX + "app.use('/login', requireAuth)\n"}, "GET /login"),
    "a call in a handler of a whole route": ({"a.ts": EX + "app.route('/login').get((req, res) => knex('t').del().then(() => res.end()))\n"}, "DELETE /login"),
    "in a closure of axum": ({"src/main.rs": 'use axum::{Router, routing::get};\nfn main() {\n    let app = Router::new().route("/login", get(|| async { client.delete("u") }));\n    axum::serve(l, app);\n}\n'}, "DELETE /login"),
    "in a private folder of next": ({"app/_lib/login/route.ts": "export function GET() {}\n"}, "GET /_lib/login"),
    "in a directory called like next's": ({"src/lib/app/login/route.ts": "export function GET() {}\n"}, "GET /login"),
    "in an engine of rails": ({"engines/e/config/routes.rb": "E::Engine.routes.draw do\n  get 'login', to: 'a#b'\nend\n"}, "GET /login"),
    "in a scope of rails that is not written out": ({"config/routes.rb": "Rails.application.routes.draw do\n  scope PREFIX do\n    get 'login', to: 'a#b'\n  end\nend\n"}, "GET /login"),
    "in braces of rails": ({"config/routes.rb": "Rails.application.routes.draw do\n  namespace(:admin) {\n    get 'login', to: 'a#b'\n  }\nend\n"}, "GET /login"),
    "below a placeholder of spring": ({"C.java": '@RestController\n@RequestMapping("${base}/v1")\nclass C {\n  @GetMapping("/login") void x() {}\n}\n'}, "GET /login"),
    "below a path that spring is told": ({"C.java": '@RestController\nclass C {\n  @GetMapping("/login") void x() {}\n}\n', "W.java": "class W {\n  void a(P c) { c.addPathPrefix(X, y); }\n}\n"}, "GET /login"),
    "below what is given with stars": ({"a.py": FA + "r = APIRouter()\n@r.get('/login')\ndef x(): ...\napp.include_router(r, **more)\n"}, "GET /login"),
    "behind a dispatcher": ({"a.py": "from flask import Flask\napp = Flask(__name__)\n@app.get('/login')\ndef x(): ...\nserver = DispatcherMiddleware(none, {'/v1': app})\n"}, "GET /login"),
    "in a plugin with the server's name": ({"a.ts": "import Fastify from 'fastify'\nconst app = Fastify()\napp.register(async (app) => {\n  app.get('/login', h)\n}, { prefix: '/v1' })\n"}, "GET /login"),
    "in a string": ({"a.ts": EX + "const help = \"app.get('/login', h)\"\n"}, "GET /login"),
    "in text of many lines": ({"a.ts": EX + "const help = `\napp.get('/login', h)\n`\n"}, "GET /login"),
    "in python's text": ({"a.py": FA + 'HELP = """\n@app.get("/login")\n"""\n'}, "GET /login"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_SERVED)
def test_what_only_looks_like_the_endpoint_is_not_taken_for_it(tmp_path, name):
    files, asked = NOT_SERVED[name]
    found = verify_artifact(snapshot(write(tmp_path, files)), must_exist=asked, check_type="endpoint")
    assert found["exists"] is not True, found


def test_routers_of_one_name_in_one_file_are_not_taken_for_each_other(tmp_path):
    part = "function {0}() {{\n  const r = express.Router()\n  r.get('/{0}', h)\n  return r\n}}\n"
    text = EX + part.format("a") + part.format("b") + "app.use('/v1', r)\n"
    assert served(tmp_path, {"a.ts": text}) == {("GET", "/a", 5, False), ("GET", "/b", 10, False)}


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": FA + "r = APIRouter()\napp.include_router(r, prefix=P)\n@r.get('/x')\ndef x(): ...\n"},
        {"a.py": FA + "r = APIRouter(prefix=P)\napp.include_router(r)\n@r.get('/x')\ndef x(): ...\n"},
        {"a.ts": EX + "const r = express.Router()\napp.use(API_PREFIX, r)\nr.get('/x', h)\n"},
        {"a.ts": EX + "const r = express.Router()\napp.use(`${v}/api`, r)\nr.get('/x', h)\n"},
    ],
)
def test_a_prefix_that_is_no_literal_is_not_taken_for_none(tmp_path, files):
    found = routes(Source(write(tmp_path, files)))
    assert [(one.path, one.sure) for one in found.endpoints if not one.opaque] == [("/x", False)]
    assert found.dynamic


def test_a_file_with_endless_calls_is_read_in_part_and_denies_nothing(tmp_path):
    found = routes(Source(write(tmp_path, {"a.ts": EX + "app.get('/x', h)\n" * 3000})))
    assert len(found.endpoints) == 2000
    assert found.dynamic


def test_blocks_of_rails_without_an_end_are_read_in_part_and_deny_nothing(tmp_path):
    text = "Rails.application.routes.draw do\n" + "  scope '/a' do\n  get 'x', to: 'a#b'\n" * 60_000
    found = routes(Source(write(tmp_path, {"config/routes.rb": text[:900_000]})))
    assert len(found.endpoints) < 200
    assert found.dynamic


def test_groups_of_laravel_without_an_end_are_read_in_part_and_deny_nothing(tmp_path):
    text = "<?php\n" + "Route::prefix('a')->group(function () {\nRoute::get('x', h);\n" * 10_000
    found = routes(Source(write(tmp_path, {"routes/web.php": text})))
    assert len(found.endpoints) < 10
    assert found.dynamic


def test_routers_that_mount_each_other_end(tmp_path):
    files = {"a.ts": EX + "const a = express.Router()\nconst b = express.Router()\na.use('/b', b)\nb.use('/a', a)\na.get('/x', h)\n"}  # fmt: skip
    assert all(not sure for _, _, _, sure in served(tmp_path, files))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("GET/POST /api/x", [("GET", "/api/x"), ("POST", "/api/x")]),
        ("GET, PUT and DELETE `/x`", [("GET", "/x"), ("PUT", "/x"), ("DELETE", "/x")]),
        ("POST /api/x endpoint.", [("POST", "/api/x")]),
        ("the /api/x route", [("", "/api/x")]),
        ("nothing", []),
    ],
)
def test_every_method_that_is_asked_for_is_asked(text, asked):
    assert [(one.method, one.path) for one in every_asked(text)] == asked


def test_segments_know_parameters_and_what_may_be_left_out():
    assert segments("/a/:id/{x}/[y]/<int:z>/$k/v:version") == ("a", "*", "*", "*", "*", "*", "*")
    for rest in ("*", "[...all]", "[[...all]]", "{rest...}", ":id?", "{id?}", "(:locale)?", "{x:path}", "*splat"):
        assert segments(f"/a/{rest}")[1] == "**", rest


def test_routes_are_remembered_until_a_file_changes(tmp_path, monkeypatch):
    root = write(tmp_path, {"a.ts": EX + "app.get('/a', h)\n", "b.ts": "x\n"})
    monkeypatch.setattr(route_search, "_RACY_NS", -1)
    first = routes(Source(root))
    second = Source(root, files=0)
    assert routes(second) is first
    assert second.complete, "nothing is read again"
    assert second.searched["files"] == 2, "but it counts as searched"
    (root / "b.ts").write_text("import express from 'express'\nconst app = express()\napp.get('/b', h)\n")
    assert {one.path for one in routes(Source(root)).endpoints} == {"/a", "/b"}
    (root / "a.ts").unlink()
    assert {one.path for one in routes(Source(root)).endpoints} == {"/b"}


def test_files_that_have_just_changed_are_not_relied_on(tmp_path):
    root = write(tmp_path, {"a.ts": EX + "app.get('/a', h)\n"})
    assert routes(Source(root)) is not routes(Source(root))


def test_no_more_projects_are_remembered_than_a_few(tmp_path, monkeypatch):
    monkeypatch.setattr(route_search, "_RACY_NS", -1)
    for number in range(9):
        routes(Source(write(tmp_path / str(number), {"a.ts": EX})))
    assert len(route_search._REMEMBERED._known) <= 4
