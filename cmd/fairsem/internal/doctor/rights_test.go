package doctor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

// listed is the line of least rights in docs/operations.md, as words, without the name of the user.
func listed(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^ *ACL SETUSER fairsem (.*)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, lines, 1)
	return strings.Fields(strings.Replace(lines[0][1], ">PASSWORD", ">secret", 1))
}

func TestTheRightsThatAreAskedForAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	var given, asked []string
	for _, word := range listed(t) {
		if word[0] == '+' {
			given = append(given, word)
		}
	}
	for _, r := range rights {
		asked = append(asked, r.word)
	}
	assert.Equal(t, given, asked)
}

// Not even for a moment, for a user who may not delete.
func TestAskingForARightWritesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	for _, r := range append(p.wanted(), p.places("n")...) {
		_ = r.ask(t.Context(), p.nodes[0], p.space().Key("n", r.word), p.Prefix+":channel") // most are refused, for what they ask
		assert.Empty(t, everyKey(t, s.Client(), p.Prefix), r.word)
	}
}

// user makes a user with the listed rights and more words behind, and returns its URL.
func user(t *testing.T, s *redistest.Server, words ...string) string {
	t.Helper()
	name := "monkey-" + uuid.NewString()[:8] // in which the word key is
	allow(t, s.Client(), name, words...)
	return fmt.Sprintf("rediss://%s:secret@%s?skip_verify=true", name, s.Addr())
}

func allow(t *testing.T, rdb *redis.Client, name string, words ...string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", name}
	for _, word := range append(listed(t), words...) {
		args = append(args, word)
	}
	require.NoError(t, rdb.Do(t.Context(), args...).Err())
}

// named is the rights that the checks name.
func named(t *testing.T, p *target) []string {
	t.Helper()
	words := []string{}
	for _, check := range []string{"rights", "optional"} {
		f := one(t, p.runs(t, check))
		require.NotEqual(t, Skip, f.State, f.Message)
		some, _ := f.Details["missing"].([]string)
		words = append(words, some...)
		for _, word := range some {
			assert.Contains(t, f.Message, word)
			assert.Contains(t, f.Advice, word)
		}
	}
	return words
}

func TestEachRightThatIsMissingIsNamedAndNoOther(t *testing.T) {
	t.Parallel()
	s := redistest.SharedSecure(t)
	for _, word := range listed(t) {
		if word[0] != '+' {
			continue
		}
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			want := []string{word}
			if word == "+hello" {
				want = []string{} // Redis refuses it to nobody
			}
			o := usual()
			o.Prefix = "fairsem"
			assert.Equal(t, want, named(t, meet(t, user(t, s, "-"+word[1:]), o)))
		})
	}
}

func TestKeysAndChannelsThatMayNotBeUsedAreNamed(t *testing.T) {
	t.Parallel()
	s := redistest.SharedSecure(t)
	table := map[string]struct{ words, want []string }{
		"nothing":           {nil, []string{}},
		"other keys":        {[]string{"resetkeys", "~other:*"}, []string{"~fairsem:*"}},
		"keys to read":      {[]string{"resetkeys", "%R~fairsem:*"}, []string{"~fairsem:*"}},
		"keys to write":     {[]string{"resetkeys", "%W~fairsem:*"}, []string{"~fairsem:*"}},
		"other channels":    {[]string{"resetchannels", "&other:*"}, []string{"&fairsem:*"}},
		"keys of names":     {[]string{"resetkeys", "~fairsem:{*"}, []string{"~fairsem:client:*", "~fairsem:evicted:*"}},
		"labels to read":    {[]string{"resetkeys", "~fairsem:{*", "%R~fairsem:client:*", "~fairsem:evicted:*"}, []string{"~fairsem:client:*"}},
		"labels to write":   {[]string{"resetkeys", "~fairsem:{*", "~fairsem:client:*", "%W~fairsem:evicted:*"}, []string{"~fairsem:evicted:*"}},
		"no channel to see": {[]string{"resetchannels", "&fairsem:wake:*"}, []string{}}, // only a cluster needs another
		"no set":            {[]string{"-set"}, []string{"+set"}},
		"neither":           {[]string{"resetkeys", "resetchannels"}, []string{"~fairsem:*", "&fairsem:*"}},
		"several":           {[]string{"-zadd", "-time", "-publish"}, []string{"+time", "+zadd", "+publish"}},
		"everything":        {[]string{"+@all"}, []string{}},
		"no right whatever": {[]string{"-@all"}, nil},
	}
	if info := fields(s.Client().Info(t.Context(), "server").Val()); strings.HasPrefix(info["redis_version"], "6.") {
		delete(table, "keys to read") // patterns for only one of reading and writing exist since Redis 7
		delete(table, "keys to write")
		delete(table, "labels to read")
		delete(table, "labels to write")
	}
	for what, c := range table {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := usual()
			o.Prefix = "fairsem"
			got := named(t, meet(t, user(t, s, c.words...), o))
			if c.want == nil {
				assert.Len(t, got, len(rights)-1) // as above, hello
				return
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestWithTheRightsOfTheReadmeNothingIsAmissAndWhatCouldNotBeAskedIsSkipped(t *testing.T) {
	t.Parallel()
	s := redistest.NewSecure(t)
	o := usual()
	o.Prefix = "fairsem"
	url := user(t, s)
	occupy(t, s.Client(), o.Prefix, "here")
	before := everyKey(t, s.Client(), o.Prefix)
	report := examine(t, url, o)
	assert.Equal(t, []string{"skip slow: not checked: this user lacks +slowlog"}, report.troubles())
	assert.Contains(t, one(t, report.of("semaphores")).Message, "1 name,")
	assert.Equal(t, before, everyKey(t, s.Client(), o.Prefix))

	entries, err := s.Client().ACLLog(t.Context(), 100).Result()
	require.NoError(t, err)
	refused := map[string]bool{}
	bare := map[string]string{"slowlog": "slowlog|get", "config": "config|get"} // Redis 6.2 logs no subcommands
	for _, e := range entries {
		refused[cmp.Or(bare[e.Object], e.Object)] = true
	}
	assert.Equal(t, map[string]bool{"slowlog|get": true, "config|get": true}, refused)
}

// ACL SETUSER does not bring them back.
func TestCommandsThatTheServerDoesNotHaveAreToldFromRightsThatTheUserLacks(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t, "--rename-command", "ZMSCORE", "", "--rename-command", "WAIT", "", "--rename-command", "SUBSCRIBE", "hidden")
	p := meet(t, "redis://"+s.Addr(), usual())
	needed, optional := one(t, p.runs(t, "rights")), one(t, p.runs(t, "optional"))
	assert.Equal(t, "the server lacks ZMSCORE, without which calls fail", needed.Message)
	assert.Equal(t, []string{"ZMSCORE"}, needed.Details["unknown"])
	assert.Contains(t, optional.Message, "the server lacks the optional WAIT SUBSCRIBE: Options.WaitReplicas grants nothing")
	for _, f := range []Finding{needed, optional} {
		assert.Empty(t, f.Details["missing"])
		assert.NotContains(t, f.Message, "user")
		assert.NotContains(t, f.Advice, "ACL SETUSER")
		assert.Contains(t, f.Advice, "rename-command")
	}

	allow(t, s.Client(), "few", "-zadd", "-scan", "~*", "&*")
	p = meet(t, "redis://few:secret@"+s.Addr(), usual())
	needed, optional = one(t, p.runs(t, "rights")), one(t, p.runs(t, "optional"))
	assert.Equal(t, "this user lacks +zadd, and the server lacks ZMSCORE, without which calls fail", needed.Message)
	assert.Contains(t, needed.Advice, "ACL SETUSER NAME +zadd on every server")
	assert.Contains(t, optional.Message, "this user lacks the optional +scan, and the server lacks the optional WAIT SUBSCRIBE: ")
	assert.Contains(t, optional.Advice, "ACL SETUSER NAME +scan; see")
}

// It said that calls fail. Those of the library do not.
func TestWithoutTheRightToPingOnlyTheCommandAndIdleSubscriptionsFail(t *testing.T) {
	t.Parallel()
	s := redistest.SharedSecure(t)
	says := func(words ...string) string {
		o := usual()
		o.Prefix = "fairsem"
		return one(t, meet(t, user(t, s, words...), o).runs(t, "rights")).Message
	}
	assert.Equal(t, "this user lacks +ping, without which the fairsem command does not work, and each subscription is replaced after at most 10 s of silence", says("-ping"))
	assert.Equal(t, "this user lacks +ping +zadd, without which calls fail", says("-ping", "-zadd"))
}

// Whatever is missing, there is a report with its name, no crash, and nothing is left.
func TestUsersWithFewRightsGetAReport(t *testing.T) {
	t.Parallel()
	s := redistest.SharedSecure(t)
	for what, c := range map[string]struct {
		words []string
		want  map[string]State
	}{
		"ping":      {[]string{"-ping"}, map[string]State{"ping": Skip, "rights": Fail}},
		"info":      {[]string{"-info"}, map[string]State{"version": Skip, "mode": Skip, "role": Skip, "memory": Skip, "persistence": Skip, "optional": Warn, "scripts": OK}},
		"zadd":      {[]string{"-zadd"}, map[string]State{"rights": Fail, "scripts": Fail, "optional": OK}},
		"hincrby":   {[]string{"-hincrby"}, map[string]State{"rights": OK, "optional": Warn, "scripts": OK, "wake": OK}},
		"scan":      {[]string{"-scan"}, map[string]State{"optional": Warn, "semaphores": Skip, "scripts": OK}},
		"publish":   {[]string{"-publish"}, map[string]State{"optional": Warn, "channel": Skip, "wake": Warn}},
		"subscribe": {[]string{"-subscribe"}, map[string]State{"optional": Warn, "channel": Skip, "wake": Warn}},
		"channels":  {[]string{"resetchannels"}, map[string]State{"optional": Warn, "channel": Skip, "wake": Warn}},
		"all":       {[]string{"-@all"}, map[string]State{"rights": Fail, "scripts": Fail, "clock": Skip}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := usual()
			o.Prefix = "fairsem:" + uuid.NewString()
			report := examine(t, user(t, s, c.words...), o)
			for check, want := range c.want {
				assert.Equal(t, want, one(t, report.of(check)).State, "%s: %v", check, report.troubles())
			}
			if what != "all" && what != "zadd" {
				assert.Empty(t, everyKey(t, s.Client(), o.Prefix))
			}
			for _, f := range report.Checks {
				assert.NotContains(t, f.Message+f.Advice, "secret")
			}
		})
	}
}

// Every other right was named, because SELECT was refused before each command.
func TestTheRightToSelectADatabaseIsNamedAndNoOther(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	name := "user-" + uuid.NewString()[:8]
	o := usual()
	o.Prefix = "fairsem:" + o.Prefix
	url := fmt.Sprintf("redis://%s:secret@%s/3", name, s.Addr())
	allow(t, s.Client(), name)
	report := examine(t, url, o)
	assert.Len(t, report.Checks, 2, "%v", report.troubles()) // that of the server is ok
	f := one(t, report.of("rights"))
	assert.Equal(t, Fail, f.State)
	assert.Equal(t, []string{"+select"}, f.Details["missing"])
	assert.Contains(t, f.Advice, "+select")

	allow(t, s.Client(), name, "+select")
	report = examine(t, url, o)
	assert.Zero(t, report.Count[Fail]+report.Count[Warn], "%v", report.troubles())
}

func TestInAClusterTheRightToAskForItsNodesIsNamed(t *testing.T) {
	t.Parallel()
	c := redistest.SharedCluster(t)
	name := "user-" + uuid.NewString()[:8]
	for _, n := range c.Nodes {
		allow(t, n.Client(), name)
	}
	o := usual()
	o.Prefix = "fairsem:" + o.Prefix
	url := fmt.Sprintf("cluster://%s:secret@%s", name, c.Nodes[0].Addr())
	report := examine(t, url, o)
	assert.Equal(t, []string{"+cluster|slots"}, one(t, report.of("rights")).Details["missing"])
	assert.Equal(t, Fail, one(t, report.of("rights")).State)

	for _, n := range c.Nodes {
		allow(t, n.Client(), name, "+cluster|slots")
	}
	report = examine(t, url, o)
	assert.Zero(t, report.Count[Fail])
	assert.Equal(t, []string{"+asking"}, report.of("optional")[0].Details["missing"])

	for _, n := range c.Nodes {
		allow(t, n.Client(), name, "+cluster|slots", "+asking")
	}
	report = examine(t, url, o)
	assert.Zero(t, report.Count[Fail]+report.Count[Warn], "%v", report.troubles())

	for _, n := range c.Nodes {
		allow(t, n.Client(), name, "+cluster|slots", "+asking", "resetchannels", "&"+o.Prefix+":wake:*")
	}
	report = examine(t, url, o)
	require.Len(t, report.of("optional"), 3)
	for _, f := range report.of("optional") { // it was ok
		assert.Equal(t, []string{"&" + o.Prefix + ":watch"}, f.Details["missing"])
		assert.Contains(t, f.Message, "holders learn of a lost primary only with their next renewal")
	}
	assert.EqualValues(t, 3, report.Count[Warn], "%v", report.troubles())
	for _, n := range c.Nodes {
		allow(t, n.Client(), name, "+cluster|slots", "+asking", "resetchannels", "&"+o.Prefix+":*")
	}

	allow(t, c.Nodes[1].Client(), name, "-hset") // on one of the primaries only
	report = examine(t, url, o)
	all := report.of("rights")
	require.Len(t, all, 2)
	assert.Contains(t, all[0].Message, c.Nodes[1].Addr()+": this user lacks +hset")
	require.Equal(t, OK, all[1].State)
}
