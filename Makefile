# Targets of Kubernasium; `make help` lists them. Needs Go, gcc and Python 3.10+ with venv.

GO          ?= go
PYTHON      ?= python3
CACHE       := .cache
VENV        := $(CACHE)/venv
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 20s
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

# All stages but test-race compile with these flags, as the Python package does: Go's cache then has each package once.
# The flags of `go env` are kept.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath $(filter-out -trimpath,$(shell $(GO) env GOFLAGS))

DATA        := $(or $(KUBERNASIUM_DATA),$(wildcard ../shared/data))
ifneq ($(DATA),)
export KUBERNASIUM_DATA := $(abspath $(DATA))
endif

# By default pip gives up after 15 s without a byte, which a large wheel can take on a busy machine.
export PIP_DEFAULT_TIMEOUT ?= 120
export PIP_RETRIES         ?= 10

.DEFAULT_GOAL := help
.PHONY: lane-go lane-servers $(shell awk -F: '/^[a-z-]+:.*\#\# /{print $$1}' $(MAKEFILE_LIST))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## compile trainer and server into bin/
	@mkdir -p bin
	$(GO) build -o bin/ ./trainer ./server

# GOARCH=arm64 make images BIN=bin/arm64 IMAGES=FOLDER prepares images of arm64.
BIN              ?= bin

# Kubernetes' servers are compiled for this one.
CONTROLPLANE     := kwok/controlplane
CONTROLPLANE_GO  := $(GO) -C $(CONTROLPLANE)
K8S_VERSION      := k8s.io/component-base/version
SCHEDULER        := kwok/scheduler
SCHEDULER_GO     := $(subst -C $(CONTROLPLANE),-C $(SCHEDULER),$(CONTROLPLANE_GO))
# What of the main module the plugin is built from: the environments, the models and the mirror.
PLUGIN_SRC       := $(shell find $(SCHEDULER) agents envs models kwok/mirror kwok/kubeyaml kwok/scorer server/guard kwok/schedulerconfig kwok/k8sversion -name '*.go' -not -name '*_test.go') \
	$(SCHEDULER)/go.mod $(SCHEDULER)/go.sum
CONTROLPLANE_SRC := $(shell find $(CONTROLPLANE) -name '*.go' -not -name '*_test.go') $(wildcard $(CONTROLPLANE)/plane/stages/*.yaml) \
	$(CONTROLPLANE)/go.mod $(CONTROLPLANE)/go.sum $(PLUGIN_SRC)

controlplane: $(BIN)/controlplane ## compile etcd, Kubernetes' servers and KWOK into bin/controlplane: minutes at first, seconds later

$(BIN)/controlplane: $(CONTROLPLANE_SRC)
	@mkdir -p $(BIN)
	@start=$$SECONDS; version=$$($(CONTROLPLANE_GO) list -m -f '{{.Version}}' k8s.io/kubernetes); \
		$(CONTROLPLANE_GO) build -buildvcs=auto -o $(abspath $@) -ldflags "-s -w -X $(K8S_VERSION).gitVersion=$$version" .; \
		echo "== built $@ from Kubernetes $$version: $$((SECONDS - start)) s, $$(($$(stat -c %s $@) / 1000000)) MB"

VPA_UPSTREAM    := kwok/vpa/upstream
VPA_UPSTREAM_GO := $(GO) -C $(VPA_UPSTREAM)

vpa-upstream: $(BIN)/vpa-upstream ## compile upstream's updater and admission controller of vertical pod autoscaling into bin/vpa-upstream

$(BIN)/vpa-upstream: $(wildcard $(VPA_UPSTREAM)/*.go kwok/extension/*.go) $(VPA_UPSTREAM)/go.mod $(VPA_UPSTREAM)/go.sum
	@mkdir -p $(BIN)
	$(VPA_UPSTREAM_GO) build -buildvcs=false -o $(abspath $@) -ldflags '-s -w' .

scheduler: $(BIN)/kubernasium-scheduler ## compile kube-scheduler with the policy's plugin into bin/kubernasium-scheduler

$(BIN)/kubernasium-scheduler: $(PLUGIN_SRC)
	@mkdir -p $(BIN)
	@start=$$SECONDS; version=$$($(SCHEDULER_GO) list -m -f '{{.Version}}' k8s.io/kubernetes); \
		$(SCHEDULER_GO) build -buildvcs=auto -o $(abspath $@) -ldflags "-s -w -X $(K8S_VERSION).gitVersion=$$version" .; \
		echo "== built $@ from Kubernetes $$version: $$((SECONDS - start)) s, $$(($$(stat -c %s $@) / 1000000)) MB"

test-scheduler: ## the plugin of kube-scheduler: arguments, preferences, scores, state
	$(SCHEDULER_GO) mod tidy -diff
	$(SCHEDULER_GO) vet ./...
	$(SCHEDULER_GO) test -count=1 ./...

bench-scheduler: controlplane ## decisions of the plugin, and pods a second beside default-scheduler: the tables of docs/scheduler.md
	$(SCHEDULER_GO) test -run '^$$' -bench Decision ./plugin
	KUBERNASIUM_CONTROLPLANE=$(abspath bin/controlplane) $(GO) test -run '^$$' -bench 'Bulk/nodes=10+$$' -benchtime 5x ./kwok/schedulerconfig

# The end of a quiet command: a log, which an error shows.
shown = $(abspath $1) 2>&1 || { cat $(abspath $1); exit 1; }

# For tests with real servers or a browser: the few that fail run once more, and are named.
TEST_AGAIN := GO=$(GO) $(abspath tools/test_again.sh)

test-controlplane: controlplane ## the control plane: starts, stops, restarts, refuses; trainer kwok up
	$(CONTROLPLANE_GO) mod tidy -diff
	$(CONTROLPLANE_GO) vet ./...
	@mkdir -p $(CACHE)
	@cd $(CONTROLPLANE) && $(TEST_AGAIN) ./... -count=1 > $(call shown,$(CACHE)/test-controlplane.log)
	@KUBERNASIUM_CONTROLPLANE=$(abspath bin/controlplane) $(TEST_AGAIN) ./trainer/command/kwok -count=1 -run KwokUp >> $(call shown,$(CACHE)/test-controlplane.log)
	@grep -e '^ok' -e '^== ' $(CACHE)/test-controlplane.log

# Tests that need a container engine: those of make test-images.
IMAGE_TESTS         := ^(TestImagesStart|TestImagesPlay|TestImagesOfAutoscaling|TestWorkersImage)$$

HELM                := $(abspath bin)/helm
PROMETHEUS_OPERATOR := github.com/prometheus-operator/prometheus-operator@v0.85.0
KUBERAY             := github.com/ray-project/kuberay/ray-operator@v1.5.0
DEPLOY_PROGRAMS     := $(abspath $(CACHE))/deploy

bin/helm: tools/helm/go.mod tools/helm/go.sum
	@mkdir -p bin
	$(GO) -C tools/helm build -buildvcs=false -o $(HELM) helm.sh/helm/v4/cmd/helm

bin/kubectl: tools/helm/kubectl/main.go tools/helm/kubectl/go.mod tools/helm/kubectl/go.sum
	@mkdir -p bin
	$(GO) -C tools/helm/kubectl build -buildvcs=false -ldflags '-s -w' -o $(abspath $@) .

test-deploy: controlplane scheduler bin/helm bin/kubectl ## the Helm chart on a control plane with roles: objects, programs, and each right of theirs
	@mkdir -p $(DEPLOY_PROGRAMS)
	$(GO) -C tools/helm mod tidy -diff
	$(GO) -C tools/helm/kubectl mod tidy -diff
	$(GO) build -o $(DEPLOY_PROGRAMS)/ ./server ./trainer
	cp bin/kubernasium-scheduler $(DEPLOY_PROGRAMS)/
	@export KUBERNASIUM_CONTROLPLANE=$(abspath bin/controlplane) KUBERNASIUM_HELM=$(HELM) KUBERNASIUM_KUBECTL=$(abspath bin)/kubectl KUBERNASIUM_PROGRAMS=$(DEPLOY_PROGRAMS); \
		export PROMETHEUS_OPERATOR=$$($(GO) mod download -json $(PROMETHEUS_OPERATOR) | sed -n 's/^.*"Dir": "\(.*\)",*$$/\1/p'); \
		export KUBERAY=$$($(GO) mod download -json $(KUBERAY) | sed -n 's/^.*"Dir": "\(.*\)",*$$/\1/p'); \
		$(TEST_AGAIN) ./deploy -count=1 -skip '$(IMAGE_TESTS)' > $(call shown,$(CACHE)/test-deploy.log)
	@! grep -e '--- SKIP' $(CACHE)/test-deploy.log || { echo "a test was skipped"; exit 1; }
	@grep -e '^ok' -e '^== ' $(CACHE)/test-deploy.log

SUBMIT_UPSTREAM    := trainer/submit/upstream
SUBMIT_UPSTREAM_GO := $(GO) -C $(SUBMIT_UPSTREAM)

test-submit: controlplane ## trainer train --submit on a control plane, with the types of JobSet and Kueue, and JobSet's controllers
	$(SUBMIT_UPSTREAM_GO) mod tidy -diff
	$(SUBMIT_UPSTREAM_GO) vet ./...
	@mkdir -p $(CACHE)
	@cd $(SUBMIT_UPSTREAM) && KUBERNASIUM_CONTROLPLANE=$(abspath bin/controlplane) $(TEST_AGAIN) ./... -count=1 > $(call shown,$(CACHE)/test-submit.log)
	@grep -e '^ok' -e '^== ' $(CACHE)/test-submit.log

IMAGES        ?= $(CACHE)/images
IMAGE_PROGRAM := $(GO) build -tags nogorgonia -ldflags '-s -w'
NOTICES       := GOOS= GOARCH= $(GO) run ./tools/notices

images: controlplane scheduler vpa-upstream image-folders ## prepare .cache/images, the folders from which compose.yaml builds its images
	cp $(BIN)/controlplane $(IMAGES)/controlplane/
	cp $(BIN)/kubernasium-scheduler $(IMAGES)/scheduler/
	cp $(BIN)/vpa-upstream $(IMAGES)/vpa-upstream/
	$(IMAGE_PROGRAM) -o $(IMAGES)/server/ ./server
	$(IMAGE_PROGRAM) -o $(IMAGES)/trainer/ ./trainer
	cp $(IMAGES)/trainer/trainer $(IMAGES)/scheduler/
	$(NOTICES) -C $(CONTROLPLANE) -o $(abspath $(IMAGES))/controlplane/licences/THIRD_PARTY_NOTICES.txt .
	$(NOTICES) -C $(SCHEDULER) -o $(abspath $(IMAGES))/scheduler/licences/THIRD_PARTY_NOTICES.txt .
	$(NOTICES) -C $(VPA_UPSTREAM) -o $(abspath $(IMAGES))/vpa-upstream/licences/THIRD_PARTY_NOTICES.txt .
	$(NOTICES) -tags nogorgonia -o $(abspath $(IMAGES))/server/licences/THIRD_PARTY_NOTICES.txt ./server
	$(NOTICES) -tags nogorgonia -o $(abspath $(IMAGES))/trainer/licences/THIRD_PARTY_NOTICES.txt ./trainer
	cp $(IMAGES)/trainer/licences/THIRD_PARTY_NOTICES.txt $(IMAGES)/scheduler/licences/THIRD_PARTY_NOTICES-trainer.txt

image-folders: ## what these folders hold beside the programs: Dockerfiles, stages, pretrained models
	@rm -rf $(IMAGES)
	@mkdir -p $(IMAGES)/controlplane/state $(IMAGES)/controlplane/stages $(IMAGES)/server $(IMAGES)/trainer/logs $(IMAGES)/vpa-upstream
	@for i in server trainer scheduler controlplane vpa-upstream; do mkdir -p $(IMAGES)/$$i/licences; cp LICENSE $(IMAGES)/$$i/licences/; done
	cp kwok/vpa/upstream/Dockerfile $(IMAGES)/vpa-upstream/
	cp kwok/controlplane/Dockerfile $(IMAGES)/controlplane/
	cp kwok/stages/*.yaml $(IMAGES)/controlplane/stages/
	cp server/Dockerfile $(IMAGES)/server/
	cp trainer/Dockerfile $(IMAGES)/trainer/
	cp -r models/pretrained $(IMAGES)/trainer/
	@mkdir -p $(IMAGES)/scheduler
	cp kwok/scheduler/Dockerfile $(IMAGES)/scheduler/
	cp -r models/pretrained $(IMAGES)/scheduler/
	@mkdir -p $(IMAGES)/jupyter/notebooks
	cp tools/jupyter/Dockerfile tools/jupyter/requirements.txt $(IMAGES)/jupyter/
	cp clients/python/examples/*.ipynb clients/python/examples/*.py $(IMAGES)/jupyter/notebooks/
	cp -r clients/python/src/kubernasium $(IMAGES)/jupyter/kubernasium
	rm -rf $(IMAGES)/jupyter/kubernasium/bin

stresspod: ## prepare .cache/images/stresspod, the folder from which the image of stress pods is built
	@mkdir -p $(CACHE)/images/stresspod
	cp kwok/load/stresspod/Dockerfile $(CACHE)/images/stresspod/
	$(GO) build -ldflags '-s -w' -o $(CACHE)/images/stresspod/ ./kwok/load/stresspod

gangworker: ## prepare .cache/images/gangworker, the folder from which the image of workers of real gangs is built
	@mkdir -p $(CACHE)/images/gangworker
	cp kwok/bsp/gangworker/Dockerfile $(CACHE)/images/gangworker/
	$(GO) build -ldflags '-s -w' -o $(CACHE)/images/gangworker/ ./kwok/bsp/gangworker

test-stresspod: build stresspod ## the image of stress pods with a real Docker engine
	tools/test_stresspod.sh

test-cgroups: ## real work under cgroup v2, in an emulated machine: for hosts that mount version 1; installs QEMU as root on Debian
	@command -v qemu-system-x86_64 >/dev/null && command -v cpio >/dev/null && command -v busybox >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-system-x86 busybox-static cpio stress-ng >/dev/null; }
	@mkdir -p $(CACHE)/cgroups
	GO=$(GO) tools/test_cgroups.sh $(CACHE)/cgroups

test-images: images stresspod gangworker bin/helm ## every image with a real container engine: built, and seen to do its work; skips without one
	KUBERNASIUM_CONTROLPLANE=$(abspath bin/controlplane) KUBERNASIUM_HELM=$(HELM) GO=$(GO) tools/test_images.sh

test-compose: images ## compose.yaml with a real Docker engine: every profile, seen to work
	tools/test_compose.sh

# The shipped model's training with half its imitation.
run: build ## train PPO on k8s/GangForecast-v0, compare it with every baseline, evaluate it over the wire: about a minute
	@mkdir -p logs
	bin/trainer train --conf-file models/pretrained/k8s-GangForecast-v0/ppo.yml --imitate-steps 200000 --compare 40 | tee logs/run.out
	@echo
	tools/over_wire.sh "$$(awk '/^best model/ {print $$3}' logs/run.out)" --episodes 40
	@echo; echo "look at it in the browser: bin/trainer board"

PRETRAINED_ALGOS ?= ppo a2c dqn reinforce ppo_lstm
PRETRAINED_ENVS  ?= $(notdir $(wildcard models/pretrained/*))
VPA_FORECASTER   := $(CACHE)/pretrained-vpa/lstm_forecaster.safetensors
ADVANTAGE        := $(CACHE)/pretrained/advantage.safetensors

# The file beside each model says how it is trained. Agents of vertical pod autoscaling imitate the forecaster. The models of
# GPUPodScheduling-v2 and LRAOnline-v0 are trained by commands of their own.
pretrained: build ## train the models of models/pretrained anew and write their cards: about a quarter of an hour
	@rm -rf $(CACHE)/pretrained $(CACHE)/pretrained-vpa && mkdir -p $(CACHE)/pretrained $(CACHE)/pretrained-vpa
	@for env in $(subst /,-,$(PRETRAINED_ENVS)); do best=(); \
		if [ $$env = k8s-VerticalPodAutoscaler-v0 ]; then \
			bin/trainer vpa forecaster --env-kwargs hold:60 --out $(VPA_FORECASTER); best+=(--model $(VPA_FORECASTER)); \
		fi; \
		if [ $$env = k8s-GPUPodScheduling-v2 ]; then \
			bin/trainer podsched advantage --seed 1 --out $(ADVANTAGE); best+=(--model $(ADVANTAGE)); \
		fi; \
		if [ $$env = k8s-LRAOnline-v0 ]; then \
			bin/trainer lra advantage --seed 1 --out $(ADVANTAGE); best+=(--model $(ADVANTAGE)); \
		fi; \
		for algo in $(PRETRAINED_ALGOS); do \
			conf=models/pretrained/$$env/$$algo.yml; [ -f $$conf ] || continue; \
			bin/trainer train --conf-file $$conf -f $(CACHE)/pretrained | tee $(CACHE)/pretrained/out; \
			best+=(--model "$$(awk '/^best model/ {print $$3}' $(CACHE)/pretrained/out)"); \
		done; \
		bin/trainer card "$${best[@]}"; \
	done

# Two lanes side by side where there are two cores: one waits for servers while the other computes. The second builds
# the control plane in test-board, long before the first needs it.
# GNU make has LINT = lint.
LINT :=
LANES ?= $(if $(filter 1,$(shell nproc)),1,2)

test: ## every test; with LINT=lint, also make lint
	@$(MAKE) --no-print-directory -j$(LANES) lane-servers lane-go

lane-go: STAGES := $(LINT) test-race test-full test-oracle test-scheduler test-dist test-submit test-deploy
lane-servers: STAGES := test-python test-recipes test-board test-controlplane test-kwok
lane-go lane-servers:
	@for stage in $(STAGES); do \
		TIMEFORMAT="== make $$stage took %0R s, with %0U s of user and %0S s of system time"; time $(MAKE) --no-print-directory $$stage; \
	done

# Packages that draw and compress pictures, and a reference for networks: watched, they took a third of the time of the
# tests that write a plot, or compare with it.
NO_RACE := image/... compress/... golang.org/x/image/... gonum.org/v1/plot/... ./models/internal/oracle

test-race: ## all packages but trainer/command/core and tune, whose trainings other packages test, under the race detector, with -short
	CGO_ENABLED=1 $(GO) test -race -short $(foreach p,$(NO_RACE),-gcflags=$(p)=-race=false) -vet=off -shuffle=on -timeout 30m $$($(GO) list ./... | grep -v -e /trainer/command/core -e /trainer/command/tune) # lint has vetted them

test-full: ## all packages: published tables and learning gates
	$(GO) test -vet=off -shuffle=on -timeout 30m ./...

test-python: $(VENV)/installed ## the Python client against Gymnasium and Stable-Baselines3; what peers say of our files
	$(VENV)/bin/python envs/classic/testdata/record.py --episodes 300 --long 20 -o $(CACHE)/cartpole.json.gz
	$(GO) test -count=1 ./envs/classic -recording $(abspath $(CACHE))/cartpole.json.gz
	TENSORBOARD_PYTHON=$(abspath $(VENV))/bin/python $(GO) test -count=1 -run TestTensorBoardReadsOurEvents ./trainer/tracking
	ONNX_PYTHON=$(abspath $(VENV))/bin/python $(GO) test -count=1 -run TestONNXRuntimeAgrees ./trainer/command/core
	$(GO) build -o $(CACHE)/trainer ./trainer
	$(if $(DATA),$(VENV)/bin/python envs/lra/testdata/highs_check.py --trainer $(CACHE)/trainer --data $(DATA)/metis --rows 1,@echo "skip highs_check.py: set KUBERNASIUM_DATA to the folder that holds metis/")
	PYTHON=$(PYTHON) clients/python/run_tests.sh $(CACHE)/venv-client
	$(CACHE)/venv-client/bin/python -m pytest -p no:cacheprovider -q tools/test_bench_gemm.py tools/test_bench_peers.py tools/test_transfer.py tools/test_pages.py tools/test_results.py --dist .
	SB3_PYTHON=$(abspath $(CACHE))/venv-client/bin/python $(GO) test -count=1 -run 'TestStableBaselines3|TestPythonPolicy' ./trainer/command/core

AXE := $(CACHE)/axe/axe_playwright_python/axe.min.js

$(AXE): $(VENV)/installed tools/axe.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(CACHE)/axe --requirement tools/axe.txt
	touch $@

# The packages whose tests open the page, and what they need: a browser, axe-core, and a control plane with the scheduler.
BOARD_TESTS := ./board ./trainer/command/core ./trainer/command/kwok ./server/command
BOARD_ENV    = KUBERNASIUM_AXE=$(abspath $(AXE)) KUBERNASIUM_CHROMIUM=$$(command -v chromium) \
	KUBERNASIUM_CONTROLPLANE=$(abspath bin/controlplane) KUBERNASIUM_SCHEDULER=$(abspath bin/kubernasium-scheduler)

test-board: $(AXE) controlplane scheduler chromium ## the page in a real browser: every view with real runs, a training, a control plane and a server among them
	$(BOARD_ENV) $(TEST_AGAIN) '$(BOARD_TESTS)' -p 1 -count=1 -timeout 30m -run Browser

chromium: ## headless Chromium, which root installs on Debian
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } \
		|| { echo "chromium is missing: install it"; exit 1; }

# All pictures are in .cache/board, those in the dark and of a phone's width too; the documents show some.
board: $(AXE) controlplane scheduler chromium ## bundle the page of board/ui into board/dist, and take the pictures of docs/board.md anew
	$(GO) run ./tools/boardbundle
	mkdir -p $(CACHE)/board
	$(BOARD_ENV) KUBERNASIUM_SCREENSHOTS=$(abspath $(CACHE))/board $(GO) test -p 1 -count=1 -timeout 30m -run Browser $(BOARD_TESTS)
	for picture in docs/img/board_*.png; do cp $(CACHE)/board/$$(basename $$picture) $$picture; done

VENV_DIST := $(CACHE)/venv-dist
DIST      := $(CACHE)/dist
DIST_TEST := $(VENV_DIST)/bin/python -m pytest -p no:cacheprovider -q -s tools/test_dist.py --dist

$(VENV_DIST)/installed: tools/dist.txt
	$(PYTHON) -m venv --clear $(VENV_DIST)
	$(VENV_DIST)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

dist: $(VENV_DIST)/installed ## wheels for Linux, macOS and Windows on x86-64 and arm64, those of the control plane for Linux, and the sdist, in dist/; checked
	$(VENV_DIST)/bin/python tools/dist.py dist --kwok
	$(DIST_TEST) dist
	$(subst test_dist,test_dist_kwok,$(DIST_TEST)) dist

test-dist: $(VENV_DIST)/installed ## the wheel of Linux on this machine: contents, metadata, the same bytes from another path, first steps where there is no Go
	$(VENV_DIST)/bin/python tools/dist.py $(DIST)/test --platform linux/$$($(GO) env GOARCH)
	$(VENV_DIST)/bin/python tools/dist.py $(DIST)/again --elsewhere --no-sdist --platform linux/$$($(GO) env GOARCH)
	KUBERNASIUM_DIST_AGAIN=$(abspath $(DIST)/again) $(DIST_TEST) $(DIST)/test

qemu-user: ## QEMU's user-mode emulators, which root installs on Debian
	@command -v qemu-aarch64 >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user >/dev/null; } \
		|| { echo "qemu-aarch64 is missing: install Debian's package qemu-user"; exit 1; }

test-dist-arm64: $(VENV_DIST)/installed qemu-user ## the wheel of Linux on arm64, emulated: first steps, an evaluation and every environment as on x86-64; installs QEMU as root on Debian
	$(VENV_DIST)/bin/python tools/dist.py $(DIST)/arm64 --no-sdist --platform linux/arm64
	GO=$(GO) $(VENV_DIST)/bin/python -m pytest -p no:cacheprovider -q -s tools/test_dist_arm64.py --dist $(DIST)/arm64

WINE_PACKAGES := wine wine64 binutils-mingw-w64-x86-64

wine: ## Wine and the linker for Windows, which root installs on Debian
	@{ command -v wine && command -v x86_64-w64-mingw32-ld; } >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(WINE_PACKAGES) >/dev/null; } \
		|| { echo "wine is missing: install Debian's packages $(WINE_PACKAGES)"; exit 1; }

test-dist-windows: $(VENV_DIST)/installed wine ## the wheel of Windows on x86-64 under Wine: first steps, trainings and every environment as on Linux; vet for Windows and macOS; installs Wine as root on Debian
	for os in windows darwin; do GOOS=$$os $(GO) vet ./... || exit 1; done
	$(VENV_DIST)/bin/python tools/dist.py $(DIST)/windows --no-sdist --platform windows/amd64
	GO=$(GO) $(VENV_DIST)/bin/python -m pytest -p no:cacheprovider -q -s tools/test_dist_windows.py --dist $(DIST)/windows

test-dist-kwok: $(VENV_DIST)/installed ## the wheel of the control plane for this machine: contents, the extra kwok installed, and a cluster started where there is no Go
	$(VENV_DIST)/bin/python tools/dist.py $(DIST)/kwok --no-sdist --platform linux/$$($(GO) env GOARCH) --kwok
	$(subst test_dist,test_dist_kwok,$(DIST_TEST)) $(DIST)/kwok

GORELEASER := github.com/goreleaser/goreleaser/v2@v2.15.1
COSIGN     := github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
SYFT       := github.com/anchore/syft/cmd/syft@v1.57.0
# The name has the versions, so that another one is installed.
RELEASE_TOOLS := $(CACHE)/tools/$(notdir $(GORELEASER)).$(notdir $(COSIGN)).$(notdir $(SYFT))
# Such as "linux/amd64": a short rehearsal.
RELEASE_PLATFORMS ?=

$(RELEASE_TOOLS):
	@mkdir -p $(CACHE)/tools
	for tool in $(GORELEASER) $(COSIGN) $(SYFT); do GOBIN=$(abspath $(CACHE))/tools $(GO) install -ldflags '-s -w' $$tool; done
	touch $@

release-tools: $(RELEASE_TOOLS) ## compile GoReleaser, cosign and syft into .cache/tools

release-dry-run: $(VENV_DIST)/installed $(RELEASE_TOOLS) qemu-user ## everything of a release, built, signed and checked here, and nothing published: wheels, archives, SBOMs, images, chart
	$(GO) -C tools/ociimage mod tidy -diff
	$(GO) -C tools/ociimage test ./...
	$(VENV_DIST)/bin/python tools/release.py rehearse $(RELEASE_PLATFORMS:%=--platform=%)
	RELEASE_PLATFORMS="$(RELEASE_PLATFORMS)" $(subst test_dist,test_release,$(DIST_TEST)) $(CACHE)/release/files
	RELEASE_PLATFORMS="$(RELEASE_PLATFORMS)" $(subst test_dist,test_release_emulated,$(DIST_TEST)) $(CACHE)/release/files

test-install: ## go install of both programs from this module's zip, as a proxy would serve it: compiles this module's packages again
	KUBERNASIUM_INSTALL=1 $(GO) test -count=1 -v -run TestInstall ./tools/modulezip

test-recipes: ## clients/python/RECIPES.md and the action masks, with the libraries themselves
	PYTHON=$(PYTHON) clients/python/run_recipes.sh $(CACHE)/venv-recipes $(CACHE)/venv-client

SITE_VENV := $(CACHE)/venv-site
VERSION   ?= $(shell sed -n 's/.*\bNumber *= "\(.*\)".*/\1/p' version/version.go)

$(SITE_VENV)/installed: tools/site/requirements.txt
	$(PYTHON) -m venv --clear $(SITE_VENV)
	$(SITE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	touch $@

docs: $(SITE_VENV)/installed ## the site of documents in .cache/site/VERSION, with every link checked (docs/site.md)
	@rm -rf $(CACHE)/site-generated
	$(GO) run ./tools/site --out $(CACHE)/site-generated
	$(SITE_VENV)/bin/python tools/site/build.py --version $(VERSION) --generated $(CACHE)/site-generated
	$(SITE_VENV)/bin/python tools/site/check.py $(CACHE)/site/$(VERSION)

test-docs: docs ## make docs, then each page in headless Chromium, and the tutorials run block by block
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } \
		|| { echo "chromium is missing: install it"; exit 1; }
	KUBERNASIUM_SITE=$(abspath $(CACHE))/site/$(VERSION) KUBERNASIUM_CHROMIUM=$$(command -v chromium) $(GO) test -count=1 -v ./tools/site > $(call shown,$(CACHE)/test-docs.log)
	@! grep -e '--- SKIP' $(CACHE)/test-docs.log || { echo "a test was skipped"; exit 1; }
	@grep -e '^ok' $(CACHE)/test-docs.log
	PYTHON=$(PYTHON) clients/python/run_tests.sh $(CACHE)/venv-client --collect-only --quiet >/dev/null
	$(CACHE)/venv-client/bin/python tools/site/tutorials.py

ORACLES := envs/vpa/recommender/oracle

test-oracle: ## the VPA recommender against upstream's packages
	@set -x; for module in $(ORACLES); do $(GO) -C $$module vet ./... && $(GO) -C $$module test ./... || exit 1; done

# The packages of trainer with tests on a control plane.
KWOK_COMMANDS := ./trainer ./trainer/command/core ./trainer/command/gang ./trainer/command/kwok

test-kwok: controlplane scheduler vpa-upstream ## the environments on a real API server with KWOK's nodes, and parity with the simulator
	@mkdir -p $(CACHE)
	$(VPA_UPSTREAM_GO) mod tidy -diff
	$(VPA_UPSTREAM_GO) vet ./...
	$(VPA_UPSTREAM_GO) test ./...
	@export KUBERNASIUM_CONTROLPLANE=$(abspath bin/controlplane) KUBERNASIUM_SCHEDULER=$(abspath bin/kubernasium-scheduler) KUBERNASIUM_VPA_UPSTREAM=$(abspath bin/vpa-upstream); \
		{ $(TEST_AGAIN) ./kwok/... -count=1 -timeout 20m -skip '$(IMAGE_TESTS)' && $(TEST_AGAIN) '$(KWOK_COMMANDS)' -count=1 -p 1 -run '^TestKwok'; } > $(call shown,$(CACHE)/test-kwok.log)
	@export KUBERNASIUM_CONTROLPLANE=$(abspath bin/controlplane); \
		PYTHON=$(PYTHON) clients/python/run_tests.sh $(CACHE)/venv-client -q tests/test_twins.py >> $(call shown,$(CACHE)/test-kwok.log)
	@! grep -e '--- SKIP' $(CACHE)/test-kwok.log || { echo "a test was skipped"; exit 1; }
	@grep -e '^ok' -e '^== ' -e 'decisions, .* pods' -e '^[0-9]* passed' $(CACHE)/test-kwok.log

$(VENV)/installed: tools/requirements.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

check: ## what every commit must pass: format, vet, imports, quick tests of the packages that differ from main
	@test -z "$$(gofmt -l . | tee -a /dev/stderr)"
	$(GO) vet ./...
	$(GO) run ./tools/importcheck
	$(GO) test -short -timeout 30m $$(tools/changed_packages.sh)

lint: ## format, vet, staticcheck, module files, imports, documents, and the figures and pictures of docs/results
	@test -z "$$(gofmt -l . | tee -a /dev/stderr)"
	$(GO) vet ./...
	$(GO) run ./tools/importcheck
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) run $(STATICCHECK) ./...
	$(GO) run ./tools/doccheck
	$(GO) run ./tools/boardbundle --check
	$(PYTHON) tools/results.py
	$(PYTHON) tools/plot_results.py --check

audit: ## licences and known vulnerabilities of what programs contain; reads the database of Go, or VULNDB=file://FOLDER
	GOBIN=$(abspath $(CACHE)) $(GO) install $(GOVULNCHECK)
	GO=$(GO) GOVULNCHECK=$(abspath $(CACHE))/govulncheck VULNDB=$(VULNDB) tools/audit.sh

bench: ## the benchmarks of docs/benchmarks.md
	$(GO) test -run '^$$' -bench . -benchmem ./envs/... ./models/... ./agents/...

bench-resets: ## what a step and a reset of each environment cost: a table of docs/benchmarks.md
	GOMAXPROCS=1 $(GO) run ./tools/benchresets

bench-learning: build ## every algorithm with five seeds against published results: table, CSV and plots of docs/learning.md
	@mkdir -p $(CACHE)
	bin/trainer learning --log-folder $(CACHE)/learning --markdown $(CACHE)/learning.md --csv docs/learning.csv --plots docs/img
	@echo "table in $(CACHE)/learning.md, plots in docs/img"

DQN_SEEDS ?= 501..540

bench-dqn: ## DQN with RL Zoo's settings here and in Stable-Baselines3, 40 seeds each: fails unless the shares of solved seeds agree; 1 h
	@mkdir -p $(CACHE)
	PYTHON=$(PYTHON) clients/python/run_tests.sh $(CACHE)/venv-client --collect-only --quiet >/dev/null
	$(CACHE)/venv-client/bin/pip install --quiet --disable-pip-version-check statsmodels==0.15.0
	$(GO) build -o $(CACHE)/trainer ./trainer
	OMP_NUM_THREADS=1 $(CACHE)/venv-client/bin/python -W ignore tools/bench_dqn.py --trainer $(CACHE)/trainer --seeds $(DQN_SEEDS) --csv docs/learning_dqn.csv

results: build ## tables and pictures of docs/results from scratch, those that .cache/results lacks or ONLY="gang: base" names: fifteen hours in all
	$(PYTHON) tools/results.py --list --only "$(ONLY)"
	$(PYTHON) tools/results.py --trainer bin/trainer --only "$(ONLY)"

plots: $(VENV)/installed ## the pictures of the READMEs, from the tables of docs/results
	$(VENV)/bin/python tools/plot_results.py

bench-wire: ## CartPole and GangWindow over the wire beside Gymnasium and EnvPool: the table of docs/wire.md
	@mkdir -p $(CACHE)
	PYTHON=$(PYTHON) clients/python/run_tests.sh $(CACHE)/venv-client --collect-only --quiet >/dev/null
	$(CACHE)/venv-client/bin/pip install --quiet --disable-pip-version-check envpool==1.2.5 || echo "without EnvPool, whose wheel does not install here"
	$(CACHE)/venv-client/bin/python -W ignore clients/python/bench/bench_wire.py --markdown $(CACHE)/wire.md
	@echo "written to $(CACHE)/wire.md"

bench-fleet: ## one vector, and two in turn, on 1, 2 and 4 servers of one core each: the table of docs/scale.md; quiet machines only
	@mkdir -p $(CACHE)
	$(GO) build -o $(CACHE)/fleet-server ./server
	$(GO) run ./tools/benchfleet --server $(CACHE)/fleet-server
	$(GO) run ./tools/benchfleet --server $(CACHE)/fleet-server --vectors 2

PEERS := $(CACHE)/peers

$(PEERS)/installed: tools/peers.txt
	rm -rf $(PEERS)
	$(CACHE)/venv-client/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(PEERS) --requirement $<
	touch $@

bench-trainers: ## our trainers beside Stable-Baselines3's, PureJaxRL's and SBX's, and networks beside torch's: the tables of docs/benchmarks.md
	@mkdir -p $(CACHE)
	PYTHON=$(PYTHON) clients/python/run_tests.sh $(CACHE)/venv-client --collect-only --quiet >/dev/null
	$(GO) build -o $(CACHE)/ ./tools/benchtrainers ./trainer
	$(CACHE)/venv-client/bin/python tools/bench_solve.py --trainer $(CACHE)/trainer --markdown $(CACHE)/solve.md
	$(CACHE)/venv-client/bin/python -W ignore tools/bench_trainers.py --ours $(CACHE)/benchtrainers --markdown $(CACHE)/trainers.md
	$(MAKE) --no-print-directory $(PEERS)/installed
	PYTHONPATH=$(abspath $(PEERS)) $(CACHE)/venv-client/bin/python -W ignore tools/bench_peers.py --ours $(CACHE)/benchtrainers \
		--markdown $(CACHE)/peers.md --json $(CACHE)/peers.json $(BASELINE:%=--baseline %)
	@echo "written to $(CACHE)/trainers.md, $(CACHE)/solve.md, $(CACHE)/peers.md and $(CACHE)/peers.json, with which BASELINE=FILE compares a later run"

bench-gemm: ## matrix products on one core beside OpenBLAS's and MKL's, and the core's peak: a table of docs/benchmarks.md
	@mkdir -p $(CACHE)
	PYTHON=$(PYTHON) clients/python/run_tests.sh $(CACHE)/venv-client --collect-only --quiet >/dev/null
	$(GO) test -c -o $(CACHE)/fused.test ./models/fused
	$(CACHE)/venv-client/bin/python tools/bench_gemm.py --ours $(CACHE)/fused.test --markdown $(CACHE)/gemm.md

BENCH_KWOK ?= --soak 6m --episodes 100

bench-kwok: controlplane ## the real API server: start, pods, nodes, resets, memory, a soak, 100 episodes of parity for each twin
	@mkdir -p $(CACHE)
	KUBERNASIUM_CONTROLPLANE=$(abspath bin/controlplane) $(GO) run ./tools/benchkwok $(BENCH_KWOK) --profile $(CACHE)/kwok.pprof
	@echo "what the control plane does with its time: go tool pprof -top -cum $(CACHE)/kwok.pprof"

chaos: build ## what breaks programs, done to server, trainer and clients: the table of docs/chaos.md; CHAOS=short for a few minutes
	@$(GO) run ./tools/chaos --python $(if $(wildcard $(VENV)/bin/python),$(VENV)/bin/python,$(PYTHON))

fuzz: ## every fuzz target for FUZZTIME (20s)
	@for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

clean: ## remove what make has built; logs/ stays
	rm -rf bin dist $(CACHE)
