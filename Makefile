# What there is to type here: `make help`.
#
# Everything happens in the virtual environment .venv, made when first needed.  The files .venv/.*
# remember what was done there; what depends on a changed source is done again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check
SOURCES := setup.py pyproject.toml README.md $(shell find mhub twisted -name '*.py' -o -path '*/static/*' -type f)

export PYTHON

.PHONY: bench-admin bench-auth bench-cluster bench-move help run cluster test test-needs bench crash simulate explore chaos roam policy-proof api-fuzz lint format wheel clean-ext clean

help:
	@echo "make run        a broker on 127.0.0.1: MQTT on port 1883, WebSocket on 8083"
	@echo "make cluster    three nodes of one broker on 127.0.0.1: MQTT on the ports 1883, 1884 and 1885"
	@echo "make test       all tests, on the pure and on the compiled build"
	@echo "make bench      throughput and latency of this broker on this machine"
	@echo "make bench-cluster  what two nodes cost, against one"
	@echo "make bench-move what it costs a client to go to another node"
	@echo "make bench-auth what others notice of guessed passwords, and of a user database that hangs or dies"
	@echo "make bench-admin  what MQTT clients notice of an administrator who looks at everything"
	@echo "make crash      kill this broker under load, 50 times on each store, and look what is lost"
	@echo "make simulate   2,000 histories of a simulated cluster in which links, nodes and clients fail"
	@echo "make explore    every order of events in small clusters, a quarter of an hour for each of them"
	@echo "make chaos      nodes of a real cluster cut off, stopped and killed under load: is anything lost?"
	@echo "make roam       clients that go from node to node of a busy cluster, 200 times: is anything lost?"
	@echo "make policy-proof  the index, PyCasbin and the specification on 100,000 random cases: do they differ?"
	@echo "make api-fuzz   schemathesis over the admin API of a broker: does it do what its document says?"
	@echo "make lint       ruff, mypy in strict mode, and the TypeScript compiler for the dashboard"
	@echo "make format     let ruff format the sources"
	@echo "make wheel      a wheel in dist/, compiled for this machine"
	@echo "make clean-ext  remove compiled modules that lie in the source tree"
	@echo "make clean      remove all that make has made"

run: $(VENV)/.installed
	@$(BIN)/mhub --version | grep -q compiled || \
		echo "Pure Python, the slower build: apt-get install gcc libc6-dev python3-dev, then make clean run"
	@.ci/start docs/examples/quickstart.toml

cluster: $(VENV)/.installed
	@.ci/cluster docs/examples/cluster-a.toml docs/examples/cluster-b.toml docs/examples/cluster-c.toml

test: test-needs $(VENV)/.compiled
	@$(BIN)/python tests/run.py

# First of all, so that apt-get says once all that it is going to install.
test-needs:
	@.ci/need venv compiler clients server proxy redis postgresql mariadb prometheus influxdb chromium curl || echo "The tests that use what is missing are skipped."

bench: $(VENV)/.compiled
	@.ci/bench
	@$(BIN)/python tests/bench/access_bench.py
	@$(BIN)/python tests/bench/gate_bench.py

bench-cluster: $(VENV)/.compiled
	@$(BIN)/python tests/bench/cluster_bench.py

bench-auth: $(VENV)/.compiled
	@.ci/need redis postgresql
	@$(BIN)/python tests/bench/auth_bench.py --backend postgresql
	@$(BIN)/python tests/bench/auth_bench.py --backend redis

bench-admin: $(VENV)/.compiled
	@$(BIN)/python tests/bench/admin_bench.py

bench-move: $(VENV)/.compiled
	@$(BIN)/python tests/bench/move_bench.py
	@$(BIN)/python tests/bench/move_bench.py --store sqlite

crash: $(VENV)/.compiled
	@.ci/need redis
	@$(BIN)/python -m tests.system.crash_run --store sqlite --kills 50
	@$(BIN)/python -m tests.system.crash_run --store redis --kills 50

simulate: $(VENV)/.dev
	@$(BIN)/python -m tests.cluster.sim_run --seeds 2000

explore: $(VENV)/.dev
	@PYTHONPATH=. $(BIN)/python -m tests.cluster.explore --config all --seconds 900 --quiet

chaos: $(VENV)/.compiled
	@.ci/need proxy
	@$(BIN)/python -m tests.system.cluster_run --scenario all

# Of each store, MQTT version and temperament of clients about eleven runs, on a machine that has too
# much to do: about half an hour on two cores.
roam: $(VENV)/.compiled
	@.ci/need redis
	@$(BIN)/python -m tests.system.cluster_run --scenario roam --store all --mqtt all \
		--runs 200 --jobs 6 --burn 2

policy-proof: $(VENV)/.compiled
	@PYTHONSAFEPATH=1 $(BIN)/python -c 'import sys; sys.path.append("."); from tests.access.proof import main; sys.exit(main())'

# SEED=N asks something else.  Listeners apart: to one that is closed the client that answers requests
# does not come back, and each of them then waits for its time-out.
api-fuzz: $(VENV)/.dev
	@PYTHONPATH=. $(BIN)/python -m tests.system.openapi_run --examples 100 --seed $(or $(SEED),1) \
		--exclude-path-regex /listener
	@PYTHONPATH=. $(BIN)/python -m tests.system.openapi_run --examples 100 --seed $(or $(SEED),1) \
		--only /listener

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@.ci/types

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: dist/.built

clean-ext:
	find . -path './$(VENV)' -prune -o -name '*.so' -exec rm -f {} +
	rm -rf build

clean: clean-ext
	rm -rf $(VENV) dist *.egg-info .mypy_cache .ruff_cache .hypothesis _trial_temp*
	find . -name __pycache__ -prune -exec rm -rf {} +
	rm -f twisted/plugins/dropin.cache

# Both at once: nearly all that is made here goes on to compile.
$(VENV)/.made:
	@.ci/need venv compiler || .ci/need venv
	$(PYTHON) -m venv $(VENV)
	@touch $@

# For users: as pip does it, which compiles if there is a compiler.
$(VENV)/.installed: $(SOURCES) $(VENV)/.made
	@.ci/need compiler || echo "Without it mhub is installed as pure Python, which is slower."
	@echo "Installing mhub in $(VENV); to compile it takes some minutes"
	rm -rf build/lib* build/bdist*
	$(PIP) install --quiet .
	@$(BIN)/mhub --version
	@touch $@

# For developers: the tools, once; and whenever a source changed a wheel, compiled without fail.
$(VENV)/.dev: pyproject.toml $(VENV)/.made
	$(BIN)/python .ci/requirements > $(VENV)/requirements.txt
	$(PIP) install --quiet --requirement $(VENV)/requirements.txt
	@touch $@

dist/.built: $(SOURCES) $(VENV)/.dev
	@.ci/need compiler
	rm -rf build/lib* build/bdist* dist
	MHUB_PURE=0 $(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@touch $@

$(VENV)/.compiled: dist/.built
	$(PIP) install --quiet --no-deps --force-reinstall dist/*.whl
	@touch $(VENV)/.installed $@
