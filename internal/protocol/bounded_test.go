package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/fairsem/fairsem/internal/testclient"
)

// No script call may occupy Redis for long, whatever is stored and requested: every state of hostileStates meets every
// call of hostileCalls. The test counts the work; BenchmarkHostile measures the time.

// hostileState is a stored state that makes calls expensive.
type hostileState struct {
	name             string
	spec             LimitSpec
	holders, waiters int
	expired          int // of the holders, and the same number of waiters
	tombstones       int // all of them expired
	weight           func(i int) int64
	longIDs          bool
	renew            bool // the keys are due for renewal
	tenants          int  // how many share the name; their stored counts are right
	uncounted        bool // it is missing
	plain            bool
	atLimit          bool // each tenant has as many units as it may have
}

func distinct(i int) int64 { return int64(i + 2) }

// hostileStates returns states with size ids of a kind. Where weights are 1, at most size/2 units are free or due at once.
func hostileStates(size int) []hostileState {
	ample, used := LimitSpec{Limit: ample}, LimitSpec{Limit: int64(size)}
	rate := func(limit int64) LimitSpec { return LimitSpec{limit, time.Hour} }
	one := func(int) int64 { return 1 }
	sum := int64(size) * int64(size+3) / 2 // of the distinct weights
	oversized := func(i int) int64 { return int64(size) + 1 + int64(i) }
	renewed := min(size, 9*MaxRenewals) + MaxRenewals // at most as many as may be renewed MaxRenewals at a time
	return []hostileState{
		{name: "nobody waits", spec: ample, holders: size, weight: one},
		{name: "nobody waits, weights", spec: ample, holders: size, weight: distinct},
		{name: "a long line", spec: used, holders: size, waiters: size, weight: one, renew: true},
		{name: "a plain line", spec: LimitSpec{Limit: int64(renewed)}, holders: renewed, waiters: renewed, weight: one, renew: true, plain: true},
		{name: "a long line, weights", spec: LimitSpec{Limit: sum}, holders: size, waiters: size, weight: distinct},
		{name: "all expired", spec: used, holders: size, waiters: size, expired: size, weight: one, renew: true},
		{name: "all expired, weights", spec: LimitSpec{Limit: sum}, holders: size, waiters: size, expired: size, weight: distinct, renew: true},
		{name: "some expired", spec: LimitSpec{Limit: sum}, holders: size, waiters: size, expired: 2*MaxIDs - 1, weight: distinct, renew: true},
		{name: "room for the line", spec: ample, waiters: size, weight: one, renew: true},
		{name: "room for the line, weights", spec: ample, waiters: size, weight: distinct, renew: true},
		{name: "some expired, room for the line", spec: ample, holders: 3 * MaxIDs / 2, expired: 3 * MaxIDs / 2, waiters: size, weight: distinct, renew: true},
		{name: "a line that can never fit", spec: used, waiters: size, weight: oversized, renew: true},
		{name: "tombstones", spec: ample, holders: size / 2, waiters: size / 2, tombstones: size, weight: distinct},
		{name: "long ids", spec: LimitSpec{Limit: sum}, holders: size / 10, waiters: size / 10, expired: 2*MaxIDs + 100, weight: distinct, longIDs: true, renew: true},
		{name: "rate, used up", spec: rate(int64(size)), holders: size, weight: one},
		{name: "rate, used up, weights", spec: rate(sum), holders: size, weight: distinct},
		{name: "rate, a long line", spec: rate(int64(size)), holders: size, waiters: size, weight: one},
		{name: "rate, a long line, weights", spec: rate(sum), holders: size, waiters: size, weight: distinct},
		{name: "rate, a line of one heavy and many light", spec: rate(int64(size)), holders: size, waiters: size, weight: func(i int) int64 {
			if i == size {
				return int64(size)
			}
			return 1
		}},
		{name: "rate, all expired, weights", spec: rate(sum), holders: size, waiters: size, expired: size, weight: distinct, renew: true},
		{name: "rate, some expired, weights", spec: rate(sum), holders: size, waiters: size, expired: 2*MaxIDs - 1, weight: distinct, renew: true},
	}
}

func everyHostileState(size int) []hostileState {
	return append(hostileStates(size), statesOfTenants(size)...)
}

// statesOfTenants are such states of names that tenants share.
func statesOfTenants(size int) (all []hostileState) {
	sum := int64(size) * int64(size+3) / 2
	one := func(int) int64 { return 1 }
	counts := []int{1, size}
	if testing.Short() {
		counts = counts[1:]
	}
	for _, tenants := range counts {
		for _, s := range []hostileState{
			{name: "a long line", spec: LimitSpec{Limit: int64(size)}, holders: size, waiters: size, weight: one, renew: true},
			{name: "a long line, weights", spec: LimitSpec{Limit: sum}, holders: size, waiters: size, weight: distinct},
			{name: "some expired", spec: LimitSpec{Limit: sum}, holders: size, waiters: size, expired: 2*MaxIDs - 1, weight: distinct, renew: true},
			{name: "room for the line", spec: LimitSpec{Limit: ample}, waiters: size, weight: distinct, renew: true},
			{name: "a line that can never fit", spec: LimitSpec{Limit: 1}, waiters: size, weight: distinct, renew: true},
			{name: "not counted", spec: LimitSpec{Limit: sum}, holders: size, waiters: size, weight: distinct, renew: true, uncounted: true},
			{name: "rate, weights", spec: LimitSpec{sum, time.Hour}, holders: size, waiters: size, weight: distinct},
			{name: "rate, each tenant at its limit", spec: LimitSpec{ample, time.Hour}, holders: size, weight: one, atLimit: true},
			{name: "rate, each tenant at its limit, weights", spec: LimitSpec{ample, time.Hour}, holders: size, waiters: size, weight: distinct, atLimit: true},
		} {
			s.name, s.tenants = fmt.Sprintf("%d tenants, %s", tenants, s.name), tenants
			all = append(all, s)
		}
	}
	return all
}

// id returns the id of the i-th ticket of a state; each belongs to another client.
func (s hostileState) id(i int) string {
	if s.longIDs {
		return strings.Repeat("x:", 400) + strconv.Itoa(i) + ":" + strconv.Itoa(i)
	}
	if s.tenants > 0 {
		return fmt.Sprintf("k3X-%07d:%d:tenant-%d", i, i, i%s.tenants)
	}
	return fmt.Sprintf("k3X-%07d:%d", i, i)
}

// seed stores the state: holders first, then waiters, with weights by their index.
func (s hostileState) seed(l *lab) {
	until := "300000s"
	if s.renew {
		until = "1s"
	}
	l.seed(fmt.Sprintf("counter 9999999 | meta declared=%v layout=2 since=7 until=%s", s.spec.arg(), until))
	for _, key := range []string{l.keys[3], l.keys[5]} {
		require.NoError(l.t, l.rdb.Persist(background, key).Err()) // they are copied for longer than a second
	}
	if s.plain {
		l.set(MetaPlain, fmt.Sprint(s.spec.Limit, "+"))
	}
	now := l.now()
	alive, dead := float64(now.Add(2*time.Hour).UnixMilli()), float64(now.Add(-time.Minute).UnixMilli())
	all := make([]redis.Z, 0, s.holders+s.waiters+s.tombstones)
	for i := range s.holders + s.waiters + s.tombstones {
		all = append(all, redis.Z{Score: float64(10 + i), Member: s.id(i)})
	}
	put := func(key string, entries []redis.Z) {
		for some := range slices.Chunk(entries, 5000) {
			require.NoError(l.t, l.rdb.ZAdd(background, key, some...).Err())
		}
	}
	put(l.keys[0], all[:s.holders])
	put(l.keys[1], all[s.holders:s.holders+s.waiters])
	var weights []any
	extra := int64(0)
	for i := range s.holders + s.waiters {
		if units := s.weight(i); units > 1 {
			weights = append(weights, s.id(i), units)
			if i < s.holders {
				extra += units - 1
			}
		}
	}
	if extra > 0 {
		weights = append(weights, "extra", extra)
	}
	for some := range slices.Chunk(weights, 10_000) {
		require.NoError(l.t, l.rdb.HSet(background, l.keys[4], some...).Err())
	}
	for i := range all {
		all[i].Score = alive + float64(i)
		if i < s.expired || i >= s.holders && i < s.holders+s.expired || i >= s.holders+s.waiters {
			all[i].Score = dead + float64(i%1000)
		}
	}
	put(l.keys[2], all)
	if s.tenants > 0 {
		require.NoError(l.t, l.rdb.HSet(background, l.keys[5], MetaTenants, 1).Err())
	}
	if s.tenants > 0 && !s.uncounted {
		s.seedTenants(l, put)
	}
}

// seedTenants stores the counts that follow from the holders and waiters.
func (s hostileState) seedTenants(l *lab, put func(key string, entries []redis.Z)) {
	units, permits, heads := make(map[string]int64), make(map[string]int), make(map[string]int)
	var sum int64
	var lanes, turns []redis.Z
	for i := range s.holders + s.waiters {
		tenant := TenantOf(s.id(i))
		if i < s.holders {
			units[tenant], permits[tenant], sum = units[tenant]+s.weight(i), permits[tenant]+1, sum+s.weight(i)
			continue
		}
		rest := strings.TrimSuffix(s.id(i), ":"+tenant)
		lanes = append(lanes, redis.Z{Member: fmt.Sprintf("%d:%s%014x%s", len(tenant), tenant, 10+i, rest)})
		if _, found := heads[tenant]; !found {
			heads[tenant] = i
		}
	}
	fields := []any{"all", fmt.Sprintf("1 %d 0", sum)}
	for i := range s.tenants {
		tenant := fmt.Sprintf("tenant-%d", i)
		last, limit, score := fmt.Sprintf("%014x1", 10+i), int64(0), float64(units[tenant])
		if s.atLimit {
			limit, score = units[tenant], 1<<53
		}
		fields = append(fields, ":"+tenant, fmt.Sprintf("1 %d %d 1 %d 7 %s", units[tenant], permits[tenant], limit, last))
		if _, waits := heads[tenant]; waits {
			turns = append(turns, redis.Z{Score: score, Member: last + tenant})
		}
	}
	for some := range slices.Chunk(fields, 10_000) {
		require.NoError(l.t, l.rdb.HSet(background, l.keys[8], some...).Err())
	}
	put(l.keys[6], lanes)
	put(l.keys[7], turns)
}

// hostileCall is a call about n ids.
type hostileCall struct {
	name string
	call func(s hostileState, about CallPrefix, d Declaration, n int) Call
}

// tickets returns n stored tickets, from an index on, with distinct weights.
func (s hostileState) tickets(from, n int) (all []*ticket) {
	for i := from; i < from+n; i++ {
		all = append(all, &ticket{id: s.id(i), weight: int64(i%n) + 1})
	}
	return all
}

// some returns n stored tickets. Half of them are holders, if there are enough.
func (s hostileState) some(n int) []*ticket {
	return append(s.tickets(s.expired, n/2), s.tickets(max(s.holders, s.expired+n/2), n-n/2)...)
}

// scattered returns n stored tickets among many others: as many holders as waiters, if there are enough.
func (s hostileState) scattered(n int) (all []*ticket) {
	for i := range n / 2 {
		all = append(all, s.tickets(i*max(1, 2*s.holders/n), 1)...)
	}
	for i := range n - n/2 {
		all = append(all, s.tickets(s.holders+i*max(1, 2*s.waiters/n), 1)...)
	}
	return all
}

// unknown returns tickets that are not stored.
func (s hostileState) unknown(n int) []*ticket { return s.tickets(9_000_000, n) }

func ofWeightOne(all []*ticket) []*ticket {
	for _, t := range all {
		t.weight = 1
	}
	return all
}

func ones(n int) (all []int64) { return slices.Repeat([]int64{1}, n) }

const renewalOfMany = "refresh: many on a plain name"

func hostileCalls() []hostileCall {
	wait, try := AcquireParams{TTL: time.Minute, Wait: true}, AcquireParams{TTL: time.Minute}
	early := AcquireParams{TTL: time.Minute, Wait: true, HeadStart: time.Hour}
	inTime := AcquireParams{TTL: time.Minute, Wait: true, Bounded: true}
	forAYear := func(all []*ticket) []*bearing {
		return bear(all, slices.Repeat([]time.Duration{8760 * time.Hour}, len(all))...)
	}
	return []hostileCall{
		{"acquire: all wait if their turns come in time", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Acquire(a, d, inTime, forAYear(ofWeightOne(s.unknown(n))))
		}},
		{"acquire: distinct weights wait if their turns come in time", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Acquire(a, d, inTime, forAYear(s.unknown(n)))
		}},
		{"acquire: all wait", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Acquire(a, d, wait, ofWeightOne(s.unknown(n)))
		}},
		{"acquire: distinct weights wait, with a head start", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Acquire(a, d, early, s.unknown(n))
		}},
		{"acquire: try", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Acquire(a, d, try, ofWeightOne(s.unknown(n)))
		}},
		{"acquire: try distinct weights", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Acquire(a, d, try, s.unknown(n))
		}},
		{"acquire: sent again", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Acquire(a, d, wait, s.some(n))
		}},
		{"acquire: gives back as many", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Acquire(a, d, wait, s.unknown(n/2), s.some(n-n/2)...)
		}},
		{"acquire: gives back all for one", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Acquire(a, d, wait, s.unknown(1), s.some(n-1)...)
		}},
		{"acquire: as many tenants", func(_ hostileState, a CallPrefix, d Declaration, n int) Call {
			var all []*ticket
			for i := range n {
				spec := TenantSpec{Name: fmt.Sprint("new-", i), Share: 2, Limit: 9}
				d.Tenants = append(d.Tenants, spec)
				all = append(all, &ticket{Keyspace{ClientID: "you"}.TicketID(int64(i), spec.Name, false), 1})
			}
			return Acquire(a, d, wait, all)
		}},
		{"release", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Release(a, d, 0, false, s.some(n))
		}},
		{"release: holders", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Release(a, d, 0, false, s.tickets(s.expired, n))
		}},
		{"release: tombstones", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Release(a, d, time.Minute, false, s.some(n))
		}},
		{"refresh", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Refresh(a, d, time.Minute, false, s.some(n))
		}},
		{"refresh: who holds", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Refresh(a, d, time.Minute, true, s.tickets(s.expired, n))
		}},
		{renewalOfMany, func(s hostileState, a CallPrefix, _ Declaration, n int) Call {
			return PlainRefresh(a, seededKnown, time.Minute, n/2, s.scattered(n))
		}},
		{"refresh: nobody", func(_ hostileState, a CallPrefix, d Declaration, _ int) Call {
			return Refresh[*ticket](a, d, time.Minute, false, nil)
		}},
		{"reduce", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Reduce(a, d, s.some(n), ones(n))
		}},
		{"restore: strangers hold", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Restore(a, d, time.Minute, s.unknown(n), Claims{Holders: n, Epoch: seededEpoch, Numbers: ones(n), Units: ones(n)})
		}},
		{"restore: strangers that were away hold", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			latest := slices.Repeat([]int64{time.Now().UnixMicro()}, n)
			had := Claims{Holders: n, Epoch: seededEpoch, Confirmed: seededEpoch - 2, Granted: seededEpoch - 1, Numbers: latest, Units: ones(n)}
			return Restore(a, d, time.Minute, s.unknown(n), had)
		}},
		{"restore: strangers of weight wait", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Restore(a, d, time.Minute, s.unknown(n), Claims{Epoch: seededEpoch, Numbers: ones(n), Units: slices.Repeat([]int64{7}, n)})
		}},
		{"restore: all wait here and held", func(s hostileState, a CallPrefix, d Declaration, n int) Call {
			return Restore(a, d, time.Minute, s.tickets(s.holders, n), Claims{Holders: n, Epoch: seededEpoch, Numbers: ones(n), Units: ones(n)})
		}},
		{"resize", func(s hostileState, a CallPrefix, _ Declaration, _ int) Call {
			return Call{ResizeScript, append(prefixArgs(ResizeScript, a, s), ample, time.Now().UnixMicro())}
		}},
		{"resize: less", func(s hostileState, a CallPrefix, _ Declaration, _ int) Call {
			return Call{ResizeScript, append(prefixArgs(ResizeScript, a, s), 1, time.Now().UnixMicro())}
		}},
		{"evict", func(s hostileState, a CallPrefix, _ Declaration, _ int) Call {
			return Call{EvictScript, append(prefixArgs(EvictScript, a, s), s.id(s.holders))}
		}},
		{"status", func(s hostileState, a CallPrefix, _ Declaration, _ int) Call {
			return Call{StatusScript, append(prefixArgs(StatusScript, a, s), 0, 0)}
		}},
		{"page", func(_ hostileState, a CallPrefix, _ Declaration, _ int) Call {
			return a.Page("queue", Bookmark{}, pageSize)
		}},
		{"tenants", func(_ hostileState, a CallPrefix, _ Declaration, _ int) Call {
			return a.Tenants("0", pageSize)
		}},
	}
}

// ids is how many ids a call carries.
func (s hostileState) ids(c hostileCall) int {
	switch {
	case c.name == renewalOfMany:
		return MaxRenewals
	case s.tenants > 0 || c.name == "acquire: as many tenants":
		return MaxIDsOfTenants
	}
	return MaxIDs
}

// prefixArgs returns the first arguments of a call that declares nothing.
func prefixArgs(run *Script, a CallPrefix, s hostileState) []any {
	return a.newCall(run, Declaration{Spec: s.spec, Nothing: true}, 0, 1).Args
}

// scriptWork is the work of a call.
type scriptWork struct {
	commands int // run by the script
	elements int // sent to these commands, and returned by them
	steps    int // of Lua
}

// most is the upper bound for a call. See docs/performance.md, "The longest calls", for the time that it takes.
var most = scriptWork{commands: 950, elements: 9000, steps: 165_000}

// meter is a context that counts steps, because Lua checks it before each. It is done when a call does much more than allowed.
type meter struct {
	context.Context
	scriptWork
	done chan struct{}
}

var errEndless = errors.New("the script does not end")

func (m *meter) Done() <-chan struct{} {
	if m.steps++; m.steps == 10*most.steps {
		close(m.done)
	}
	return m.done
}

func (m *meter) Err() error { return errEndless }

// measure runs a script in this process, sends its commands to the server, and counts its work. It returns the error of the script.
func (l *lab) measure(c Call) (scriptWork, error) {
	l.t.Helper()
	m := &meter{Context: background, done: make(chan struct{})}
	vm := lua.NewState(lua.Options{RegistryMaxSize: 1 << 20, RegistryGrowStep: 4 << 10})
	defer vm.Close()
	conn := l.rdb.Conn() // a pool would take as long as the command
	defer func() { assert.NoError(l.t, conn.Close()) }()
	do := func(vm *lua.LState) (lua.LValue, error) {
		var args []any
		for i := range vm.GetTop() {
			args = append(args, vm.Get(i+1).String())
		}
		out, err := conn.Do(background, args...).Result()
		m.commands++
		m.elements += len(args) + 1
		return m.value(vm, out), err
	}
	table := vm.NewTable()
	vm.SetFuncs(table, map[string]lua.LGFunction{
		"call": func(vm *lua.LState) int {
			out, err := do(vm)
			if err != nil && !errors.Is(err, redis.Nil) {
				vm.RaiseError("%v", err)
			}
			vm.Push(out)
			return 1
		},
		"pcall": func(vm *lua.LState) int {
			out, _ := do(vm)
			vm.Push(out)
			return 1
		},
		"error_reply": func(vm *lua.LState) int { vm.RaiseError("%s", vm.CheckString(1)); return 0 },
	})
	vm.SetGlobal("redis", table)
	keys := c.Args[2].(int)
	list := func(name string, args []any) {
		t := vm.NewTable()
		for _, arg := range args {
			t.Append(lua.LString(argument(arg)))
		}
		vm.SetGlobal(name, t)
	}
	list("KEYS", c.Args[3:3+keys])
	list("ARGV", c.Args[3+keys:])
	vm.SetContext(m)
	vm.Push(vm.NewFunctionFromProto(compiled(l.t, c.Script)))
	err := vm.PCall(0, 0, nil)
	return m.scriptWork, err
}

var compiledScripts sync.Map // of *script: *lua.FunctionProto

// compiled compiles a script once for all tests, because compiling takes longer than most runs.
func compiled(t testing.TB, s *Script) *lua.FunctionProto {
	t.Helper()
	if proto, ok := compiledScripts.Load(s); ok {
		return proto.(*lua.FunctionProto)
	}
	chunk, err := parse.Parse(strings.NewReader(s.Text()), s.Verb)
	require.NoError(t, err)
	proto, err := lua.Compile(chunk, s.Verb)
	require.NoError(t, err)
	compiledScripts.Store(s, proto)
	return proto
}

// argument converts a value as go-redis does.
func argument(v any) string {
	if v == true {
		return "1"
	}
	if v == false {
		return "0"
	}
	return fmt.Sprint(v)
}

// value converts a reply of Redis to a Lua value.
func (m *meter) value(vm *lua.LState, out any) lua.LValue {
	switch out := out.(type) {
	case int64:
		return lua.LNumber(out)
	case string:
		return lua.LString(out)
	case []any:
		t := vm.NewTable()
		for _, v := range out {
			m.elements++
			t.Append(m.value(vm, v))
		}
		return t
	}
	return lua.LFalse
}

// A long call delays every other client. Guards against 2000 weights requested from a used-up Limiter, which took 0.8 s.
func TestEveryCallStaysWithinItsBoundWhateverIsStoredAndRequested(t *testing.T) {
	t.Parallel()
	const size = 2 * MaxIDs // beyond every bound
	rdb := redis.NewClient(&redis.Options{Addr: testclient.Settled(t).Options().Addr, Protocol: 2})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	worst := make(map[string]scriptWork)
	const parts = 6
	part := seeded(t, 0).IntN(parts) // with -short each call meets that part of the states, another one in the next run
	for i, state := range everyHostileState(size) {
		template := newLab(t, rdb)
		state.seed(template)
		for j, hostile := range hostileCalls() {
			if testing.Short() && (i+j)%parts != part {
				continue
			}
			l := newLab(t, rdb)
			l.copy(template)
			c := hostile.call(state, l.space.About("name"), Declaration{Spec: state.spec, Since: 7}, state.ids(hostile))
			did, err := l.measure(c)
			require.NoError(t, err)
			if did.commands > most.commands || did.elements > most.elements || did.steps > most.steps {
				t.Errorf("%s, %s: %+v", state.name, hostile.name, did)
			}
			w := worst[hostile.name]
			worst[hostile.name] = scriptWork{max(w.commands, did.commands), max(w.elements, did.elements), max(w.steps, did.steps)}
		}
	}
	for _, hostile := range hostileCalls() {
		t.Logf("%-50s %+v", hostile.name, worst[hostile.name])
	}
}

// copy copies the keys of another lab.
func (l *lab) copy(from *lab) {
	l.t.Helper()
	for i, key := range from.keys {
		require.NoError(l.t, l.rdb.Copy(background, key, l.keys[i], 0, true).Err())
	}
}

// BenchmarkHostile measures the table: the median of a few calls of each kind.
//
//	go test -run '^$' -bench Hostile -benchtime 5x .
func BenchmarkHostile(b *testing.B) {
	const size = 100_000
	rdb := testclient.Settled(b)
	for _, state := range everyHostileState(size) {
		template := newLab(b, rdb)
		state.seed(template)
		for _, hostile := range hostileCalls() {
			b.Run(state.name+"/"+hostile.name, func(b *testing.B) {
				var all []float64
				for b.Loop() {
					l := newLab(b, rdb)
					l.copy(template)
					all = append(all, l.cost(hostile.call(state, l.space.About("name"), Declaration{Spec: state.spec, Since: 7}, state.ids(hostile))))
					require.NoError(b, rdb.Unlink(background, l.keys[:]...).Err())
				}
				slices.Sort(all)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(all[len(all)/2], "redis-us/op")
			})
		}
		require.NoError(b, rdb.Unlink(background, template.keys[:]...).Err())
	}
}

// cost returns the processor time of a call on the server in us, including reading and replying; 0 if it was declined.
func (l *lab) cost(c Call) float64 {
	l.t.Helper()
	require.NoError(l.t, l.rdb.ScriptLoad(background, c.Script.Text()).Err())
	before := l.spent()
	got := l.run(c)
	spent := l.spent() - before
	require.NoError(l.t, got.err)
	if c.Script.Declined(got.numbers) {
		return 0 // another call does the work
	}
	return spent
}

func (l *lab) spent() (usec float64) {
	for line := range strings.Lines(l.rdb.Info(background, "cpu").Val()) {
		_, seconds, found := strings.Cut(line, "_main_thread:")
		if n, err := strconv.ParseFloat(strings.TrimSpace(seconds), 64); found && err == nil {
			usec += 1e6 * n
		}
	}
	return usec
}

// V8 for permits of many numbered units, between numbers that others have.
func TestCallAboutManyNumbersStaysWithinItsBound(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: testclient.Settled(t).Options().Addr, Protocol: 2})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	p := AcquireParams{TTL: time.Hour, Wait: true, Numbered: true}
	var numbers []int64
	for n := range int64(1000) {
		numbers = append(numbers, n)
	}
	for name, run := range map[string]func(l *lab, about CallPrefix) (c Call, granted int){
		"an acquire": func(_ *lab, about CallPrefix) (Call, int) {
			return Acquire(about, known(4000), p, tickets("you:1#*1000")), 1
		},
		"a restore of what an old file gives to others": func(l *lab, about CallPrefix) (Call, int) {
			epoch := l.now().UnixMicro() + 1
			l.set(MetaEpoch, strconv.FormatInt(epoch, 10))
			l.set(MetaEarlier, "3000")
			had := Claims{Holders: 1, Epoch: epoch, Numbers: []int64{epoch - 1}, Units: []int64{1000}, Lists: []string{NumberList(numbers)}}
			return Restore(about, known(4000), time.Hour, tickets("you:1#*1000"), had), 1 - 500 // whose numbers they were
		},
		"a grant to one of two that wait": func(l *lab, about CallPrefix) (Call, int) {
			l.ask(Acquire(about, known(2000), p, tickets("you:1#*1000", "you:2#*1000")), 2)
			return Call{ResizeScript, append(about.newCall(ResizeScript, Declaration{Spec: LimitSpec{Limit: 2000}, Nothing: true}, 0, 1).Args, 4000, time.Now().UnixMicro())}, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, rdb)
			l.seed("meta layout=2")
			about := l.space.About("name")
			var held []*ticket
			for n := range 2000 {
				held = append(held, &ticket{l.space.TicketID(int64(n), "", true), 1})
			}
			for some := range slices.Chunk(held, MaxIDs) {
				l.ask(Acquire(about, known(2000), p, some), len(some))
			}
			var gaps []*ticket
			for n := 0; n < len(held); n += 2 {
				gaps = append(gaps, held[n])
			}
			if !strings.HasPrefix(name, "a grant") {
				for some := range slices.Chunk(gaps, MaxIDs) {
					l.ask(Release(about, known(2000), 0, false, some), len(some))
				}
			}
			c, more := run(l, about)
			before := l.rdb.ZCount(background, l.keys[0], "-inf", "+inf").Val()
			did, err := l.measure(c)
			require.NoError(t, err)
			t.Logf("%+v", did)
			assert.LessOrEqual(t, did.commands, most.commands)
			assert.LessOrEqual(t, did.elements, most.elements)
			assert.LessOrEqual(t, did.steps, most.steps)
			after := l.rdb.ZCount(background, l.keys[0], "-inf", "+inf").Val()
			assert.Equal(t, int64(more), after-before)
		})
	}
}
