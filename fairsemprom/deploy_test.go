package fairsemprom_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/fairsem/fairsem/internal/redistest"
)

// deploy is the folder with the files that operators install.
const deploy = "../deploy"

// program returns the path of a program of Debian's package prometheus. Without it nothing would be tested, so the test fails.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err, "%s is missing: run make setup, or apt-get install prometheus", name)
	return path
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, "promtool"), args...)
	cmd.Dir = deploy
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
}

func TestPrometheusAcceptsTheConfiguration(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "config", "prometheus.yml")
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	t.Parallel()
	promtool(t, "test", "rules", "alerts_test.yml")
}

func TestEachAlertHasACaseInWhichItFiresAndOneInWhichItDoesNot(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				Labels map[string]string
			}
		}
	}
	var cases struct {
		Tests []struct {
			Checks []struct {
				Alert    string           `yaml:"alertname"`
				Expected []map[string]any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, "alerts.yml", &rules)
	readYAML(t, "alerts_test.yml", &cases)
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, test := range cases.Tests {
		for _, check := range test.Checks {
			if len(check.Expected) > 0 {
				fires[check.Alert] = true
			} else {
				silent[check.Alert] = true
			}
		}
	}
	readme, err := os.ReadFile(filepath.Join(deploy, "README.md"))
	require.NoError(t, err)
	seen := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			seen++
			assert.True(t, fires[rule.Alert], "%s fires", rule.Alert)
			assert.True(t, silent[rule.Alert], "%s does not fire", rule.Alert)
			assert.Regexp(t, "\n\\| `"+rule.Alert+"` \\| .+ \\| "+rule.Labels["severity"]+" \\| .+ \\|\n", string(readme), "when, how bad, what to do")
		}
	}
	assert.NotZero(t, seen)
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, file))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// dashboard is the dashboard that Grafana reads, as far as the tests need it.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct {
			Name       string
			AllValue   string
			Definition string
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, "grafana.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

func TestPanelsOfTheDashboardHaveAnIDAndAPositionOfTheirOwn(t *testing.T) {
	t.Parallel()
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, panel := range readDashboard(t).Panels {
		assert.False(t, ids[panel.ID], "%s has the id of another panel", panel.Title)
		ids[panel.ID] = true
		at := panel.GridPos
		assert.LessOrEqual(t, at.X+at.W, 24, panel.Title)
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				assert.Empty(t, taken[[2]int{x, y}], "%s covers it", panel.Title)
				taken[[2]int{x, y}] = panel.Title
			}
		}
		if panel.Type != "row" {
			assert.NotEmpty(t, panel.Targets, panel.Title)
		}
	}
}

// A panel without data looks like a system without trouble.
func TestEveryQueryOfTheDashboardReturnsDataUnderLoad(t *testing.T) {
	t.Parallel()
	prometheus := startPrometheus(t)
	board := readDashboard(t)
	require.Equal(t, "name", board.Templating.List[1].Name)
	names := board.Templating.List[1]
	fill := strings.NewReplacer("$name", names.AllValue, "$__rate_interval", "10s")
	queries := make(map[string]string)
	for _, panel := range board.Panels {
		for i, target := range panel.Targets {
			queries[fmt.Sprintf("%s, query %d", panel.Title, i+1)] = fill.Replace(target.Expr)
		}
	}
	require.Greater(t, len(queries), 30)
	deadline := time.Now().Add(soon)
	for what, query := range queries {
		require.NotContains(t, query, "$", what)
		var err error
		for err = prometheus.hasData(t, query); err != nil && time.Now().Before(deadline); err = prometheus.hasData(t, query) {
			<-time.After(scrape)
		}
		assert.NoError(t, err, what)
	}

	// The list of names comes from both kinds of programs.
	matcher := regexp.MustCompile(`^label_values\((.*), name\)$`).FindStringSubmatch(names.Definition)
	require.NotNil(t, matcher)
	var listed []string
	prometheus.get(t, "label/name/values?match[]="+url.QueryEscape(matcher[1]), &listed)
	assert.Equal(t, []string{"api", "db"}, listed)

	prometheus.acceptsRules(t)
}

// scrape is how often Prometheus reads: nothing it answers changes in between.
const scrape = 250 * time.Millisecond

// server is a Prometheus that runs.
type server struct{ url string }

// startPrometheus starts one with the configuration of deploy, which scrapes a fairsem serve and two programs under load.
func startPrometheus(t *testing.T) server {
	t.Helper()
	path := program(t, "prometheus")
	redis := redistest.NewServer(t).Addr()
	dir := t.TempDir()
	serve := startServe(t, dir, redis)
	one, two := startWorker(t, redis), startWorker(t, redis)

	text, err := os.ReadFile(filepath.Join(deploy, "prometheus.yml"))
	require.NoError(t, err)
	rules, err := filepath.Abs(filepath.Join(deploy, "alerts.yml"))
	require.NoError(t, err)
	config := string(text)
	for old, now := range map[string]string{
		"interval: 15s": "interval: " + scrape.String(), "- alerts.yml": "- " + rules,
		"fairsem:7420": serve, "program-1:9090": one, "program-2:9090": two,
	} {
		require.Contains(t, config, old)
		config = strings.ReplaceAll(config, old, now)
	}
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	at := startAt(t, regexp.MustCompile(`msg="Listening on".* address=(127\.0\.0\.1:\d+)`), path,
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	return server{"http://" + at + "/api/v1/"}
}

// startServe starts fairsem serve and returns its address.
func startServe(t *testing.T, dir, redis string) string {
	t.Helper()
	binary := filepath.Join(dir, "fairsem")
	// In CI the checkout may belong to another user, which git refuses.
	build := exec.CommandContext(t.Context(), "go", "build", "-race=false", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "github.com/fairsem/fairsem/cmd/fairsem")
	build.Env = append(build.Environ(), "CGO_ENABLED=0") // as it is released
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return startAt(t, regexp.MustCompile(`"http://(127\.0\.0\.1:\d+)/"`), binary,
		"serve", "--json", "--listen", "127.0.0.1:0", "--redis", "redis://"+redis, "--interval", "500ms")
}

// query gets an answer of the API of Prometheus.
func (s server) query(t *testing.T, path string, into any) error {
	t.Helper()
	body, err := fetch(t, s.url+path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &struct{ Data any }{into})
}

func (s server) get(t *testing.T, path string, into any) {
	t.Helper()
	require.NoError(t, s.query(t, path, into))
}

// hasData returns an error unless a query has a value.
func (s server) hasData(t *testing.T, query string) error {
	t.Helper()
	var answer struct{ Result []struct{ Value [2]any } }
	if err := s.query(t, "query?query="+url.QueryEscape(query), &answer); err != nil {
		return err
	}
	for _, sample := range answer.Result {
		if sample.Value[1] != "NaN" {
			return nil
		}
	}
	return errors.New("no data: " + query)
}

// acceptsRules waits until each rule was evaluated without an error.
func (s server) acceptsRules(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		var answer struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		s.get(t, "rules", &answer)
		all := len(answer.Groups) == 2
		for _, group := range answer.Groups {
			for _, rule := range group.Rules {
				require.Empty(t, rule.LastError, rule.Name)
				all = all && rule.Health == "ok"
			}
		}
		return all
	}, soon, scrape)
}
