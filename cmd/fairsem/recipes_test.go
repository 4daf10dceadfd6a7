//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/redistest"
)

// recipes are the examples of docs/recipes.md, by the names that stand before them in comments.
func recipes(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/recipes.md")
	require.NoError(t, err)
	all := make(map[string]string)
	for _, m := range regexp.MustCompile("(?s)<!-- (\\S+) -->\n```\\w+\n(.*?)```\n").FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = m[2]
	}
	require.Equal(t, strings.Count(string(text), "\n```\n"), len(all), "each example has a name of its own")
	return all
}

// kitchen is a directory to try recipes in, with programs in bin that stand for those of the reader.
type kitchen struct {
	*station
	dir     string
	recipes map[string]string
}

func newKitchen(t *testing.T) *kitchen {
	t.Helper()
	k := &kitchen{newStation(t), t.TempDir(), recipes(t)}
	for _, name := range []string{"bin/report", "bin/scheduler", "deploy.sh", "job", "migrate", "integration-tests.sh", "geocode", "remind"} {
		k.write(name, "#!/bin/sh\necho \""+filepath.Base(name)+" $FAIRSEM_NAME $FAIRSEM_WEIGHT\" | tee -a ran\nexit ${CODE-0}\n")
	}
	return k
}

func (k *kitchen) write(name, text string) {
	k.t.Helper()
	file := filepath.Join(k.dir, name)
	require.NoError(k.t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(k.t, os.WriteFile(file, []byte(text), 0o700))
}

func (k *kitchen) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(k.dir, name)) // one that is not there is empty
	return string(text)
}

// local is a command with the programs of this kitchen, and no minute to wait.
func (k *kitchen) local(command string) string {
	return strings.NewReplacer("/usr/local/bin/fairsem", "fairsem", "/usr/local/bin/", k.dir+"/bin/", "--min-hold 1m", "--min-hold 1ms").Replace(command)
}

// cook runs a shell command.
func (k *kitchen) cook(command string, env ...string) (out string, code int) {
	return k.start(exec.CommandContext(k.t.Context(), "sh", "-c", k.local(command)), env...)
}

func (k *kitchen) start(cmd *exec.Cmd, env ...string) (out string, code int) {
	cmd.Dir = k.dir
	cmd.Env = append(append(os.Environ(), "REDIS_URL=redis://"+k.server.Addr()), env...)
	text, err := cmd.CombinedOutput()
	return string(text), exitCode(err)
}

// busy holds a name.
func (k *kitchen) busy(name string, limit int64, during func()) {
	k.t.Helper()
	sem, err := k.client.Semaphore(name, limit)
	require.NoError(k.t, err)
	p, err := sem.Acquire(k.t.Context(), limit)
	require.NoError(k.t, err)
	during()
	require.NoError(k.t, p.Release(k.t.Context()))
}

// tried are the tests of the recipes, by name.
var tried = map[string]func(t *testing.T, k *kitchen, recipe string){
	"cron": func(t *testing.T, k *kitchen, recipe string) {
		line := strings.SplitN(strings.TrimSpace(recipe), " ", 6)
		require.Len(t, line, 6)
		out, code := k.cook(line[5])
		assert.Equal(t, "report report 1\n", out)
		assert.Zero(t, code)
		k.busy("report", 1, func() {
			_, code := k.cook(line[5])
			assert.Zero(t, code)
		})
		assert.Equal(t, "report report 1\n", k.read("ran"), "once")
		_, code = k.cook(line[5], "CODE=3")
		assert.Equal(t, 3, code)
	},
	"cron-without-redis": func(t *testing.T, k *kitchen, recipe string) {
		_, code := k.cook(recipe, "CODE=3")
		assert.Equal(t, 3, code)
		out, code := k.cook(recipe, "REDIS_URL=redis://127.0.0.1:1")
		assert.Contains(t, out, "no Redis at")
		assert.Zero(t, code)
		assert.Equal(t, "report report 1\nreport  \n", k.read("ran"))
	},
	"ci": func(t *testing.T, k *kitchen, recipe string) {
		recipe = "set -e\n" + recipe // as runners do
		out, code := k.cook(recipe, "CI_JOB_URL=https://ci.example.com/7", "CODE=4")
		assert.Equal(t, "deploy.sh deploy-production 1\n", out)
		assert.Equal(t, 4, code)
		k.busy("deploy-production", 1, func() {
			out, code := k.cook(strings.Replace(recipe, "--wait 45m", "--wait 3s", 1))
			assert.Contains(t, out, "start this job again")
			assert.Equal(t, 75, code)
		})
		out, code = k.cook(recipe, "REDIS_URL=redis://127.0.0.1:1")
		assert.Contains(t, out, "nothing was deployed")
		assert.Equal(t, 125, code)
	},
	"script": func(t *testing.T, k *kitchen, recipe string) {
		k.write("script", recipe)
		out, code := k.cook("./script 'a b' c")
		assert.Equal(t, "alone with a b c\n", out)
		assert.Zero(t, code)
		k.busy("migrate", 1, func() {
			_, code := k.cook("timeout 0.5 ./script")
			assert.Equal(t, 124, code, "it waits")
		})
	},
	"pipe": func(t *testing.T, k *kitchen, recipe string) {
		k.write("data/file", "text")
		out, code := k.cook(recipe + "tar tzf backup.tar.gz")
		assert.Contains(t, out, "data/file")
		assert.Zero(t, code)
	},
	"nested": func(t *testing.T, k *kitchen, recipe string) {
		out, code := k.cook(recipe, "CODE=9")
		assert.Equal(t, "job disks 1\n", out)
		assert.Equal(t, 9, code)
	},
	"fence": func(t *testing.T, k *kitchen, recipe string) {
		k.write("publish", recipe)
		k.write("first", "first")
		k.write("second", "second")
		out, code := k.cook("fairsem run p --limit 1 -c 'echo $FAIRSEM_TOKEN >token; ./publish first' && fairsem run p --limit 1 -- ./publish second")
		require.Zero(t, code, out)
		out, code = k.cook("FAIRSEM_TOKEN=$(cat token) ./publish first")
		assert.Equal(t, 1, code)
		assert.Contains(t, out, "a later run has published")
		assert.Equal(t, "second", k.read("published"))
	},
	"json": func(t *testing.T, k *kitchen, recipe string) {
		out, code := k.cook(recipe)
		assert.Equal(t, "report report 1\n1\n", out)
		assert.Zero(t, code)
	},
	"numbered": func(t *testing.T, k *kitchen, recipe string) {
		k.write("integration-tests.sh", "#!/bin/sh\necho \"$1 $FAIRSEM_NAME\"\n")
		sem, err := k.client.Semaphore("testdb", 4)
		require.NoError(t, err)
		p, err := sem.With(fairsem.CallOptions{Numbered: true}).Acquire(t.Context(), 1)
		require.NoError(t, err)
		out, code := k.cook(recipe)
		assert.Equal(t, "test_1 testdb\n", out, "another process has the number 0")
		assert.Zero(t, code)
		require.NoError(t, p.Release(t.Context()))
	},
	"numbers": func(t *testing.T, k *kitchen, recipe string) {
		k.write("migrate", "#!/bin/sh\necho \"$1\"\n")
		out, code := k.cook(recipe)
		assert.Equal(t, "test_0\ntest_1\n", out)
		assert.Zero(t, code)
	},
	"tenants": func(t *testing.T, k *kitchen, recipe string) {
		k.write("job", "#!/bin/sh\nfairsem show render --json\n")
		out, code := k.cook(strings.Replace(recipe, "run render", "run render --pass-redis-url", 1), "CUSTOMER=a customer")
		assert.Contains(t, out, `"tenant":"a customer"`)
		assert.Zero(t, code)
	},
	"rate-tenants": func(t *testing.T, k *kitchen, recipe string) {
		out, code := k.cook(recipe, "CUSTOMER=acme", "CODE=9")
		assert.Equal(t, "job  \n", out)
		assert.Equal(t, 9, code)
		tenants, err := inspect.Collect(k.client.Inspect("llm").Tenants(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, []fairsem.Tenant{{Name: "acme", Share: 1, Limit: 200, Used: 1, Holders: 1}}, tenants)
	},
	"rate": func(t *testing.T, k *kitchen, recipe string) {
		k.write("ids", "1\n2\n3\n")
		k.write("geocode", "#!/bin/sh\ncat >/dev/null\necho \"$1\" >>ran\ntest \"$1\" != 2\n")
		out, code := k.cook(recipe)
		assert.Empty(t, out)
		assert.Zero(t, code)
		assert.Equal(t, []string{"1\n2\n3\n", "2\n"}, []string{k.read("ran"), k.read("failed")})
		status, err := k.client.Inspect("geocoder").Status(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3, status.Used)
		assert.Equal(t, time.Minute, status.Window)
	},
	"rate-once": func(t *testing.T, k *kitchen, recipe string) {
		_, code := k.cook(recipe, "CODE=3")
		assert.Equal(t, 3, code)
		out, code := k.cook(recipe)
		assert.Empty(t, out)
		assert.Zero(t, code)
		assert.Equal(t, "remind  \n", k.read("ran"))
	},
	"rate-and-limit": func(t *testing.T, k *kitchen, recipe string) {
		granted := func() int64 {
			rate, err := k.client.Inspect("geocoder").Status(t.Context())
			require.NoError(t, err)
			return rate.Granted
		}
		before, cooked := granted(), make(chan struct{})
		k.busy("geocoder-calls", 4, func() {
			go func() {
				defer close(cooked)
				out, code := k.cook(recipe, "CODE=9")
				assert.Equal(t, "job geocoder-calls 1\n", out)
				assert.Equal(t, 9, code)
			}()
			require.Eventually(t, func() bool {
				status, err := k.client.Inspect("geocoder-calls").Status(t.Context())
				return err == nil && status.Waiting == 1
			}, time.Minute, 5*time.Millisecond)
			assert.Equal(t, before, granted(), "a call that waits uses none of the rate")
		})
		<-cooked
		assert.Equal(t, before+1, granted())
	},
	"systemd-timer": func(t *testing.T, k *kitchen, _ string) { k.verifyUnits(t) },
	"systemd-service": func(_ *testing.T, k *kitchen, recipe string) {
		k.execStart(recipe, "report report 1\n")
		k.stopUnit(recipe, "report", func(s fairsem.Status) bool { return s.Used == 1 })
	},
	"systemd-leader": func(_ *testing.T, k *kitchen, recipe string) {
		k.execStart(recipe, "scheduler scheduler 1\n")
		k.busy("scheduler", 1, func() {
			k.stopUnit(recipe, "scheduler", func(s fairsem.Status) bool { return s.Waiting == 1 })
		})
	},
	"kubernetes": func(_ *testing.T, k *kitchen, recipe string) {
		k.container(recipe, "report report 1\n", "spec", "jobTemplate", "spec", "template", "spec", "containers")
	},
	"kubernetes-init": func(_ *testing.T, k *kitchen, recipe string) {
		k.container(recipe, "migrate migrate 1\n", "initContainers")
	},
	"make": func(t *testing.T, k *kitchen, recipe string) {
		k.write("Makefile", recipe)
		out, code := k.cook("make -s integration")
		assert.Equal(t, "integration-tests.sh staging 1\n", out)
		assert.Zero(t, code)
	},
}

func TestTheRecipesWork(t *testing.T) {
	k := newKitchen(t)
	names := func(m map[string]string) (all []string) {
		for name := range m {
			all = append(all, name)
		}
		return all
	}(k.recipes)
	slices.Sort(names)
	for _, name := range names {
		require.Contains(t, tried, name, "an untested recipe")
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(filepath.Join(k.dir, "ran")))
			tried[name](t, k, k.recipes[name])
		})
	}
	require.Len(t, names, len(tried))
}

// verifyUnits asks systemd about the units. It need not run.
func (k *kitchen) verifyUnits(t *testing.T) {
	t.Helper()
	redistest.Program(t, "systemd-analyze")
	for name, file := range map[string]string{"systemd-timer": "report.timer", "systemd-service": "report.service", "systemd-leader": "scheduler.service"} {
		k.write(file, strings.ReplaceAll(k.recipes[name], "/usr/local/bin/", "/bin/true "))
	}
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "report.timer", "scheduler.service")
	out, _ := k.start(cmd) // its exit code is about the machine too
	assert.NotRegexp(t, `(report|scheduler)\.(timer|service):`, out)
}

// setting returns the value of a line of a unit.
func (k *kitchen) setting(unit, key string) string {
	k.t.Helper()
	value := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(unit)
	require.NotNil(k.t, value, key)
	return value[1]
}

// execStart runs the command that a unit starts.
func (k *kitchen) execStart(unit, want string) {
	k.t.Helper()
	out, code := k.cook("exec " + k.setting(unit, "ExecStart"))
	assert.Equal(k.t, want, out)
	assert.Zero(k.t, code)
}

// stopUnit stops a unit of one name like systemctl stop, with a program that does not end by itself. A unit that ends with a code
// that is no success to systemd has failed, which operators are alerted of.
func (k *kitchen) stopUnit(unit, name string, reached func(fairsem.Status) bool) {
	k.t.Helper()
	command, _, _ := strings.Cut(k.setting(unit, "ExecStart"), " -- ")
	cmd, out := k.station.start(k.program(append(strings.Fields(k.local(command))[1:], "--", "sleep", "3600")...))
	require.Eventually(k.t, func() bool {
		s, err := k.client.Inspect(name).Status(k.t.Context())
		return err == nil && reached(s)
	}, time.Minute, 5*time.Millisecond)
	require.NoError(k.t, cmd.Process.Signal(syscall.SIGTERM))
	code := exitCode(cmd.Wait())
	assert.Contains(k.t, strings.Fields(k.setting(unit, "SuccessExitStatus")), strconv.Itoa(code), out)
}

// container runs the command of the container at the end of a path in a manifest.
func (k *kitchen) container(manifest, want string, path ...string) {
	k.t.Helper()
	var at any
	require.NoError(k.t, yaml.Unmarshal([]byte(manifest), &at))
	for _, key := range path {
		at = at.(map[string]any)[key]
	}
	var argv []string
	for _, arg := range at.([]any)[0].(map[string]any)["command"].([]any) {
		argv = append(argv, k.local(arg.(string)))
	}
	out, code := k.start(exec.CommandContext(k.t.Context(), argv[0], argv[1:]...))
	assert.Equal(k.t, want, out)
	assert.Zero(k.t, code)
}
