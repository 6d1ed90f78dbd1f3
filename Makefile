# The words of the project; CI uses the same ones. ARGS goes to the program behind a target:
#   make demo ARGS=--keep      make test ARGS='-k worker'
PY = .venv/bin/python
ARGS =
VERSIONS =
SEEDS = 200
FROM = 0
# Tests start hundreds of processes; each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

# What test-portable runs; docs/platforms.md says why.
PORTABLE = tests/security/test_agents_stay_agents.py tests/integration/test_parking.py tests/integration/test_worker.py \
  tests/integration/test_deletion.py tests/integration/test_master_exit.py tests/integration/test_members_lead_nobody.py \
  tests/integration/test_squad_crash.py tests/integration/test_squad_hostile.py tests/acceptance/test_ac4_cancel.py \
  tests/crash/test_lives.py tests/crash/test_matrix_worker.py tests/unit/squad/test_member_process.py \
  tests/unit/trust/test_launched.py

.PHONY: setup venv tools check test test-portable tmux-matrix test-pythons test-web e2e demo demo-fleet bench bench-engines pictures sim soak mutants lock dist release-check clean

setup:            ## .venv with the locked packages, and tmux
	@sh tools/setup.sh

venv:
	@sh tools/setup.sh venv

tools: venv       ## what mutants and release-check need beside the locked packages
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/requirements.lock

check: venv       ## format, lint, types, spelling, generated files
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m codespell_lib
	$(PY) tools/schemas.py --check
	$(PY) tools/docs.py --check

test: setup       ## every test but the long forms and the real CLIs; three at once, for they also wait; ARGS=-n0 for one
	@sh tools/setup.sh postgres
	@sh tools/setup.sh sshd || [ -z "$$CI" ]
	$(PY) -m pytest -n 3 --dist loadscope --no-loadscope-reorder -m "not slow and not e2e" $(ARGS)
	$(if $(ARGS),,@$(MAKE) --no-print-directory test-portable)

test-portable: setup  ## team, crashes and squads in the form of the system facts that macOS has; a part of make test
	ORCHESTRATOR_PLATFORM=portable $(PY) -m pytest -n 3 --dist loadscope --no-loadscope-reorder \
	  -m "not slow and not e2e" $(PORTABLE) $(ARGS)

tmux-matrix: setup  ## the tests marked tmux on each tmux whose source is in TMUX_SOURCES, and on this machine's; VERSIONS='3.5a own' for some
	$(PY) -m tools.tmux_matrix $(VERSIONS) -- $(ARGS)

test-pythons: setup  ## tests/unit on each Python from 3.11 to 3.14 that is found, two to four minutes each, in .venv-3.N
	$(PY) -m tools.python_matrix -- $(ARGS)

test-web: setup   ## the web pages in Chromium, which it installs where it may; make e2e has these tests too
	@sh tools/setup.sh browser
	ORCHESTRATOR_E2E_STRICT=1 $(PY) -m pytest tests/e2e/test_web.py $(ARGS)

e2e: setup        ## the real CLIs against scripted models, two at once; needs node, installs the CLIs into the user's cache once
	@sh tools/setup.sh browser
	@sh tools/setup.sh postgres
	ORCHESTRATOR_E2E_STRICT=1 $(PY) -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m "e2e and not slow" tests/e2e $(ARGS)

demo: setup       ## a team of three agents on a sample project
	@$(PY) -P -m orchestrator demo $(ARGS)

demo-fleet: setup  ## nine agents on three hosts of this machine, of which one is lost; with a PostgreSQL server of its own
	@sh tools/setup.sh postgres
	@$(PY) -P -m orchestrator demo --fleet $(ARGS)

bench: setup      ## figures in rounds, what is missed is marked; ARGS='--strict', '--against TREE', 'relays cycles'
	$(PY) -m benchmarks $(ARGS)

bench-engines: setup  ## what each real CLI costs as an agent, against scripted models
	$(PY) -m benchmarks.engines $(ARGS)

pictures: setup   ## docs/pictures/ of a team at work, and docs/screens/; needs what e2e needs
	$(PY) -m tools.pictures $(ARGS)

sim: setup        ## local teams and fleets in virtual time, SEEDS of each from FROM on; a failing one prints how to repeat it
	$(PY) -m tests.simulation --seeds $(SEEDS) --from $(FROM) $(ARGS)

soak: setup       ## the long forms of the tests
	ORCHESTRATOR_E2E_STRICT=1 $(PY) -m pytest -o faulthandler_timeout=0 -m slow $(ARGS)

mutants: tools    ## mutation tests of the pure core, 20 to 40 minutes; ends with the score and the survivors
	$(PY) tools/mutants.py $(ARGS)

lock: venv        ## requirements.lock anew from pyproject.toml
	$(PY) -m piptools compile --quiet --upgrade --generate-hashes --extra dev --build-deps-for editable \
	  --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  -o requirements.lock pyproject.toml
	$(PY) -m piptools compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  -c requirements.lock -o tools/requirements.lock tools/requirements.in

dist: venv        ## wheel and sdist in dist/
	rm -rf dist
	$(PY) -m build --no-isolation

release-check: setup tools  ## version, changelog, wheel, sdist, and the demo from the wheel in a fresh environment
	$(PY) tools/release_check.py $(ARGS)

clean:            ## what the other targets left, but .venv
	@if [ -d .demo ] && [ -x $(PY) ]; then $(PY) -P -m orchestrator demo --end; fi
	rm -rf .venv-3.* .demo dist build mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -type d -prune -exec rm -rf {} +
