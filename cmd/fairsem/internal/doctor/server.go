package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/internal/failure"
)

// Checks of the server itself: its kind and version, its role, and whether it answers at all.

func busy(_ context.Context, _ *target, n *node) Finding {
	if failure.Busy(n.err) || failure.Busy(n.answer) {
		return last(fail("a script has been running for longer than lua-time-limit, and blocks all other commands",
			"find out which script it is; SCRIPT KILL ends a script that has not written yet"))
	}
	return ok("no script blocks the server")
}

// loadingOf is loading, also where the user may not read INFO.
func loadingOf(ctx context.Context, p *target, n *node) Finding {
	if failure.Begins(n.answer, "LOADING") {
		return last(fail("the server is loading its data", "wait until it is done"))
	}
	return fromInfo(loading)(ctx, p, n)
}

func loading(info map[string]string) Finding {
	if info["loading"] == "1" {
		return last(fail(fmt.Sprintf("the server is loading its data, %s%% is loaded", info["loading_loaded_perc"]), "wait until it is done"))
	}
	return ok("all data is loaded")
}

// modeOf is mode, also where the user may not read INFO.
func modeOf(ctx context.Context, p *target, n *node) Finding {
	if n.info == nil && errors.Is(p.answer, dial.ErrKind) {
		return last(fail(p.answer.Error(), "correct the address"))
	}
	return withInfo(mode)(ctx, p, n)
}

func mode(_ context.Context, p *target, n *node) Finding {
	wanted := p.server.Kind()
	switch is := cmp.Or(n.info["redis_mode"], n.info["server_mode"]); { // as Redis has it, and Valkey
	case is == "sentinel":
		return last(fail("this is a sentinel, which has no data", "use sentinel://host:26379?master_name=NAME"))
	case is == "cluster" && wanted != "cluster":
		return last(fail("this is one node of a cluster, and has only some of the names", "begin the address with cluster:// instead of redis://"))
	}
	return ok("%s", wanted).with("mode", wanted)
}

// slots checks that each name has a server.
func slots(ctx context.Context, p *target) (all []Finding) {
	if _, cluster := p.rdb.(*redis.ClusterClient); !cluster {
		return nil
	}
	for _, n := range p.silent {
		all = append(all, fail(fmt.Sprintf("%s does not answer, so names there cannot be used: %v", n.addr, failure.Discreet(n.err)),
			"start it again, or have a replica of it take over: CLUSTER FAILOVER FORCE there").with("node", n.addr))
	}
	ranges, err := p.nodes[0].rdb.ClusterSlots(ctx).Result() //nolint:staticcheck // its successor wants a right that nothing else needs
	if err != nil {
		return append(all, notChecked(err, "+cluster|slots"))
	}
	served := 0
	for _, r := range ranges {
		served += r.End - r.Start + 1
	}
	const every = 16384
	if served < every {
		return append(all, fail(fmt.Sprintf("%d of %d slots have no server: names there cannot be used", every-served, every),
			"redis-cli --cluster check lists them, --cluster fix assigns them"))
	}
	if len(all) > 0 {
		return all
	}
	return []Finding{ok("%d primaries serve all %d slots", len(p.nodes), every)}
}

// product is a known server: the first version that has the needed commands, and the oldest and the latest tested one:
// see docs/compatibility.md.
type product struct {
	name                string
	needs, oldest, most release
}

type release struct{ major, minor int }

func (r release) String() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }

func (r release) before(other release) bool {
	return r.major < other.major || r.major == other.major && r.minor < other.minor
}

var (
	redisServer  = product{"Redis", release{6, 2}, release{6, 2}, release{8, 0}}
	valkeyServer = product{"Valkey", release{7, 2}, release{8, 1}, release{9, 1}}
)

// otherServers speak the protocol; each is recognised by a field that only it reports.
var otherServers = []struct{ field, name string }{
	{"dragonfly_version", "Dragonfly"},
	{"garnet_version", "Garnet"},
	{"rlec_version", "Redis Enterprise"},
	{"mvcc_depth", "KeyDB"},
}

func version(info map[string]string) Finding {
	for _, s := range otherServers {
		if _, is := info[s.field]; is {
			return warn(s.name+", on which fairsem was never tested", "test it with your load before you rely on it, or use Redis or Valkey")
		}
	}
	is, number := redisServer, info["redis_version"]
	if info["server_name"] == "valkey" {
		is, number = valkeyServer, info["valkey_version"]
	}
	return is.judge(number).with("server", strings.ToLower(is.name)).with("version", number)
}

func (p product) judge(number string) Finding {
	parts := strings.Split(number, ".")
	var r release
	var err error
	if len(parts) > 1 {
		r.minor, err = strconv.Atoi(parts[1])
	}
	r.major, _ = strconv.Atoi(parts[0]) // 0 is no version either, like a number that cannot be read
	tested := fmt.Sprintf("%s %v to %v", p.name, p.oldest, p.most)
	switch {
	case err != nil || r.major == 0:
		return warn(fmt.Sprintf("%s, unknown version", p.name), "fairsem was tested on "+tested)
	case r.before(p.needs):
		return fail(fmt.Sprintf("%s %s lacks required commands: those of %s %v", p.name, number, p.name, p.needs), "use "+tested)
	case r.before(p.oldest):
		return warn(fmt.Sprintf("%s %s is older than what was tested", p.name, number), "use "+tested)
	case r.major > p.most.major:
		return warn(fmt.Sprintf("%s %s is newer than what was tested: %s", p.name, number, tested), "check whether a newer fairsem supports it")
	}
	return ok("%s %s", p.name, number)
}

func role(info map[string]string) Finding {
	if info["role"] != "master" {
		return last(fail(fmt.Sprintf("this is a replica of %s:%s: it accepts no writes, so nothing is granted", info["master_host"], info["master_port"]),
			"give the address of the primary, or with Sentinel sentinel://host:26379?master_name=NAME"))
	}
	return ok("primary")
}

// lagLimit is how many seconds a replica may be behind; replicas report to their primary each second.
const lagLimit = 10

func replicas(info map[string]string) Finding {
	count, _ := strconv.Atoi(info["connected_slaves"]) // the server writes it
	var late []string
	for i := range count {
		replica := pairs(strings.SplitSeq(info["slave"+strconv.Itoa(i)], ","), "=") // ip=...,port=...,state=online,...
		lag, err := strconv.Atoi(replica["lag"])
		if replica["state"] != "online" || err != nil || lag > lagLimit {
			late = append(late, fmt.Sprintf("%s:%s (%s, %s s behind)", replica["ip"], replica["port"], replica["state"], replica["lag"]))
		}
	}
	found := ok("%d in sync: Options.WaitReplicas can be up to %d", count-len(late), count-len(late))
	switch {
	case len(late) > 0:
		found = warn(fmt.Sprintf("%d of %d in sync, but not %s: with Options.WaitReplicas above %d nothing is granted",
			count-len(late), count, strings.Join(late, ", "), count-len(late)), "check the log of that replica, and the network between")
	case count == 0:
		found = ok("none: nothing takes over if the server dies, and with Options.WaitReplicas nothing is granted")
	}
	return found.with("replicas", count).with("in_step", count-len(late))
}
