# Two commands are enough: make book, make test. They make their own environment in .venv.

PYTHON = python3
PORT = 8000
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The environment of another place or lock is made anew; times of files decide nothing, archives keep any.
KEY := $(shell { pwd -P; cat requirements.lock 2>/dev/null; } | cksum)
# Beside what numba keeps of it; where that folder cannot be written, every call looks whether all is there.
COMPILED := lib/__pycache__/compiled

# What a user has set for other Pythons is not for this one, and everything is read and written as UTF-8.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONIOENCODING PYTHONOPTIMIZE PYTHONSAFEPATH JUPYTER_PATH
export PYTHONNOUSERSITE := 1
export PYTHONUTF8 := 1
# Where Python may keep no bytecode, every process compiles torch and matplotlib anew, which takes longer than running them.
unexport PYTHONDONTWRITEBYTECODE
# What commands take is said on make's command line; a variable of this name in the surroundings means something else.
OPTIONS := MODEL DATA OUT NAME PARAMS PARAMETERS SEEDS JOBS THREADS TIMEOUT QUICK ONLY RECORD WHY PROFILE VERSION
$(foreach option,$(OPTIONS),$(if $(filter environment,$(origin $(option))),$(eval $(option) :=)))
export $(OPTIONS)
BUILD := $(BIN)/python -m workflow.commands.build
TEST := $(BIN)/python -m pytest -n auto --dist loadscope

# What the first call of `make book` says, of two cores that have nothing else to do.
RUNS := $(if $(QUICK),4 chapters and their site 1,the chapters 4 to 10, the site 2)
FIRST := The first time takes, in minutes: environment 2 to 5, compiling 1, $(RUNS). Interrupted, it goes on where it stopped.

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | awk -F'|' '{ printf "  %-14s %s\n", $$1, $$2 }'

book: $(COMPILED) ## run every chapter, build the site (QUICK=1: a part; JOBS=4 THREADS=1 TIMEOUT=600)
	@$(BUILD) $(if $(QUICK),quick,all)
	@$(if $(QUICK),,echo "The book is build/html/index.html, its verdicts are build/ledger.json")

check: $(COMPILED) ## check style and the anatomy of chapters, test the library alone
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python -m workflow.commands.anatomy
	@$(TEST) tests/lib tests/heads tests/studies tests/test_examples.py

test: $(COMPILED) ## check style, bring the book up to date, run the tests
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BUILD) all
	@BOOK_IS_BUILT=1 $(TEST) -m "not again" tests

test-all: test ## the same, and build the whole book again with other threads
	@BOOK_IS_BUILT=1 $(BIN)/python -m pytest -m again tests

chapter: $(COMPILED) ## run one chapter and print its verdicts: NAME=theorem-2 PARAMS="seed=7 iterations=5000"
	@$(BIN)/python -m workflow.commands.chapter "$$NAME" --params "$$PARAMS"

mutants: $(COMPILED) ## put faults into the library, see which verdicts turn (NAME=theorem-2 ONLY="gradient-*")
	@$(BIN)/python -m workflow.commands.mutants

sweep: $(COMPILED) ## run chapters over many seeds: NAME=theorem-2 SEEDS=1000:1019 (NAME=all, PARAMETERS=file.yml or ends, PROFILE=slurm)
	@$(BIN)/python -m workflow.commands.sweep

evidence: $(COMPILED) ## run fresh seeds and mutants where what is recorded is void, hours for the whole book, resumable (NAME=theorem-2)
	@$(BUILD) ledger
	@$(BIN)/python -m workflow.commands.evidence

record: $(COMPILED) ## make the runs of a study on published data that are not in book/recorded yet: NAME=film-reviews ONLY="l2*"
	@$(BIN)/python -m studies.record

page: $(COMPILED) ## show one page as its source is now, for looking: NAME=theorem-2
	@$(BIN)/python -m workflow.commands.page "$$NAME"

lab: $(COMPILED) ## open the chapters as notebooks in JupyterLab, edits go back into book/ (NAME=theorem-2 opens that one)
	@$(BIN)/python -m workflow.commands.lab "$$NAME"

list: $(STAMP) ## list the chapters, what each reproduces, and its parameters with their ranges
	@$(BIN)/python -m workflow.commands.list

data: $(STAMP) ## bring a published data set into data/: NAME=film-reviews, cifar10, mnist or minilm
	@$(BIN)/python -m studies.data "$$NAME"

serve: $(STAMP) ## show the built site on this machine (PORT=8000)
	@[ "$(PORT)" -ge 1 ] 2>/dev/null && [ "$(PORT)" -le 65535 ] || \
		{ echo "PORT is '$(PORT)': give a whole number from 1 to 65535" >&2; exit 1; }
	@[ -f build/html/index.html ] || { echo "there is no build/html/index.html: run make book" >&2; exit 1; }
	@$(BIN)/python -c 'import socket, sys; sys.exit(socket.socket().connect_ex(("127.0.0.1", $(PORT))) == 0)' || \
		{ echo "port $(PORT) is in use: name another one, make serve PORT=8001" >&2; exit 1; }
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/html "$(PORT)"

bench: $(COMPILED) ## time the library beside other solvers and the published style, a minute (RECORD=1 for the page)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks

report: $(COMPILED) ## write one page on every head of a model: MODEL=mine/ DATA=texts.txt OUT=report.html (without MODEL all-MiniLM-L6-v2)
	@$(BIN)/python -m heads.command report "$${MODEL:-minilm}" $${DATA:+"$$DATA"} --out "$${OUT:-report.html}"

publish-chapter: $(COMPILED) ## say what a new or changed chapter lacks, then confirm, measure and accept it: NAME=theorem-2
	@$(BIN)/python -m workflow.commands.publish

ledger: $(COMPILED) ## run what is not up to date and collect the ledger, without the site
	@$(BUILD) ledger

accept: $(COMPILED) ## accept the rows of this build into book/ledger.lock.json: NAME=theorem-2 WHY="the reason" for what changed
	@$(BUILD) ledger
	@$(BIN)/python -m workflow.commands.ledger accept

wheel: $(STAMP) ## build the library and the report on heads, attention_selects and attention_heads, into build/wheel
	@$(BIN)/python -m workflow.commands.wheel

release: $(COMPILED) ## make wheel, source, archive and site of a release, and its tag, or say what it lacks: VERSION=0.2.0
	@$(BIN)/python -m workflow.commands.release

# The lock has no packages for GPUs, which torch asks for by exact version and its CPU builds do without, and no hashes of
# torch, of which each index has builds of its own.
lock: $(STAMP) ## make requirements.lock again from pyproject.toml; lines that still fit stay, so delete those to be renewed
	@mkdir -p build && cp requirements.lock build/resolved
	@$(BIN)/uv pip compile --quiet --no-config --universal --all-extras --fork-strategy fewest --prerelease disallow \
		--generate-hashes --no-header --no-annotate --output-file build/resolved pyproject.toml >/dev/null
	@{ sed -n '/^#/p' requirements.lock; awk '/^[^ ]/ { gpu = /^(nvidia|cuda|triton)/; torch = /^torch==/ } \
		torch { sub(/ \\$$/, "") } !gpu && !(torch && /^ /)' build/resolved; } >build/lock
	@mv build/lock requirements.lock

clean: ## remove what was built; the environment stays
	@rm -rf build

ifneq ($(KEY),$(shell test -x $(BIN)/python && cat $(STAMP) 2>/dev/null))
$(STAMP): another-key
another-key: ;
endif
$(STAMP):
	@$(if $(filter book,$(MAKECMDGOALS)),echo "$(FIRST)")
	@rm -f $@
	@$(PYTHON) -m workflow.setup.install $(VENV)
	@echo "$(KEY)" >$@

$(COMPILED): $(STAMP) $(shell grep -rlsE '^@compiled|^def step_length' lib studies --include=*.py)
	@$(BIN)/python -m workflow.setup.compile $@

.PHONY: help book check test test-all chapter mutants sweep evidence record page lab list data serve bench report publish-chapter ledger accept wheel release lock clean
