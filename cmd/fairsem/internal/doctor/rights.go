package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
)

// right is one that docs/operations.md lists.
type right struct {
	word  string // as ACL SETUSER takes it
	ask   asking // whether the user has it, in a way that changes nothing even if it has
	cost  string // of doing without; "": it is needed
	fails string // the operation that fails without it, if it is needed; "": calls
}

// asking returns the answer of the server as an error. All keys begin with key, and none is there.
type asking func(ctx context.Context, n *node, key, channel string) error

// do sends a command; KEY in it stands for a key, and CHANNEL for a channel. Redis checks rights first, so a command that
// cannot work, or affects nothing, is enough.
func do(command string) asking {
	return func(ctx context.Context, n *node, key, channel string) error {
		args := make([]any, 0, 8)
		for _, word := range strings.Fields(command) {
			args = append(args, strings.NewReplacer("KEY", key, "CHANNEL", channel).Replace(word))
		}
		return n.rdb.Do(ctx, args...).Err()
	}
}

// subscribe is not for a connection that others use.
func subscribe(ctx context.Context, n *node, _, channel string) error {
	sub := n.rdb.Subscribe(ctx, channel)
	defer sub.Close()
	_, err := sub.ReceiveTimeout(ctx, receiveTimeout)
	if failure.Denied(err) || failure.UnknownCommand(err, "") {
		return err
	}
	return nil // other errors are reported by the check of the channel
}

// unknownScript is the hash of no script.
var unknownScript = strings.Repeat("0", 40)

// rights are those of the user in docs/operations.md, in its order.
var rights = []right{
	{word: "+evalsha", ask: do("EVALSHA " + unknownScript + " 1 KEY")},
	{word: "+eval", ask: do("EVAL return 1 KEY"), cost: "scripts run only where they were loaded beforehand, on every server after every start: docs/security.md"},
	{word: "+hello", ask: do("HELLO"), cost: "connections use the older protocol"},
	{word: "+ping", ask: do("PING"), fails: "the fairsem command does not work, and each subscription is replaced after at most 10 s of silence"},
	{word: "+info", ask: do("INFO server"), cost: "a restart or a failover of the server is not detected"},
	{word: "+wait", ask: do("WAIT 0 0"), cost: "Options.WaitReplicas grants nothing"},
	{word: "+time", ask: do("TIME")},
	{word: "+hmget", ask: do("HMGET KEY f")},
	{word: "+hset", ask: do("HSET KEY f v odd")}, // refused: a value is missing
	{word: "+hincrby", ask: do("HINCRBY KEY f x"), cost: "granted and expired permits are not counted"}, // refused: x is no number
	{word: "+hget", ask: do("HGET KEY f")},
	{word: "+hdel", ask: do("HDEL KEY f")},
	{word: "+hlen", ask: do("HLEN KEY")},
	{word: "+zcard", ask: do("ZCARD KEY")},
	{word: "+zcount", ask: do("ZCOUNT KEY 0 1")},
	{word: "+get", ask: do("GET KEY")},
	{word: "+getrange", ask: do("GETRANGE KEY 0 0"), cost: "labels of processes are not shown, nor who evicted a permit"},
	{word: "+set", ask: do("SET KEY v XX")}, // only what is there
	{word: "+del", ask: do("DEL KEY"), cost: "labels of processes stay for up to three TTLs after their end, and tenants cannot share a name"},
	{word: "+zrange", ask: do("ZRANGE KEY 0 0")},
	{word: "+zrangebyscore", ask: do("ZRANGEBYSCORE KEY 0 1")},
	{word: "+zrangebylex", ask: do("ZRANGEBYLEX KEY - +"), cost: "tenants cannot share a name"},
	{word: "+zlexcount", ask: do("ZLEXCOUNT KEY - +"), cost: "where tenants share a name, MaxQueue, a Limiter and the list of tenants fail"},
	{word: "+hrandfield", ask: do("HRANDFIELD KEY"), cost: "a name that has stored 64 tenants or more cannot be used"},
	{word: "+hscan", ask: do("HSCAN KEY 0"), cost: "tenants cannot be listed, and on a name that they share, pools close nothing for other processes"},
	{word: "+zscore", ask: do("ZSCORE KEY m")},
	{word: "+zmscore", ask: do("ZMSCORE KEY m")},
	{word: "+zadd", ask: do("ZADD KEY XX 0 m")}, // as above
	{word: "+zrem", ask: do("ZREM KEY m")},
	{word: "+pttl", ask: do("PTTL KEY"), cost: "this command does not check the stored state of names"},
	{word: "+pexpireat", ask: do("PEXPIREAT KEY 1")},
	{word: "+persist", ask: do("PERSIST KEY")},
	{word: "+exists", ask: do("EXISTS KEY")},
	{word: "+scan", ask: do("SCAN 0 MATCH KEY COUNT 1"), cost: "fairsem ls, top, serve and this command find no names"},
	{word: "+publish", ask: do("PUBLISH CHANNEL nobody"), cost: noMessages},
	{word: "+subscribe", ask: subscribe, cost: noMessages},
}

const noMessages = "only with their next renewal do waiters find their grants, and holders that Redis has lost its state"

// clusterRights are more, in a cluster.
var clusterRights = []right{
	{word: "+cluster|slots", ask: do("CLUSTER SLOTS")},
	{word: "+asking", ask: do("ASKING"), cost: "while a slot moves, calls on its names may wait for the end of the move"},
}

// places are the keys and channels beside those of names and grants, with id in them: a user may have the rights on those alone.
func (p *target) places(id string) []right {
	const readAndWrite = "SET KEY v XX GET" // only what is there
	space := p.space()
	all := []right{
		{word: "~" + space.LabelKey("*"), ask: at(space.LabelKey(id), do(readAndWrite)), cost: "labels of processes are not shown, nor who evicted a permit"},
		{word: "~" + space.EvictedKey("*"), ask: at(space.EvictedKey(id), do(readAndWrite)), cost: "fairsem run does not say who evicted its permit"},
	}
	if _, cluster := p.rdb.(*redis.ClusterClient); cluster {
		all = append(all, right{word: "&" + space.WatchChannel(), ask: at(space.WatchChannel(), subscribe), cost: "holders learn of a lost primary only with their next renewal"})
	}
	return all
}

// at asks about one key or channel.
func at(place string, ask asking) asking {
	return func(ctx context.Context, n *node, _, _ string) error { return ask(ctx, n, place, place) }
}

// missingRight is a right that the user does not have.
type missingRight struct {
	right
	unknown bool // because the server has no such command
}

func neededRights(ctx context.Context, p *target, n *node) Finding {
	missing, err := p.missingRights(ctx, n)
	if err != nil {
		return notChecked(err, "")
	}
	missing = slices.DeleteFunc(missing, func(l missingRight) bool { return l.cost != "" })
	if len(missing) == 0 {
		return ok("all %d required rights", len(p.wanted())-len(p.optional()))
	}
	denied, unknown := split(missing)
	message := lack(denied, unknown, "") + ", without which " + failing(missing)
	return fail(message, remedy(denied, unknown, " on every server; docs/operations.md has the whole line")).with("missing", denied).with("unknown", unknown)
}

// failing names the operations that do not work without these rights.
func failing(missing []missingRight) string {
	if slices.ContainsFunc(missing, func(l missingRight) bool { return l.fails == "" }) {
		return "calls fail"
	}
	return missing[0].fails
}

func optionalRights(ctx context.Context, p *target, n *node) Finding {
	missing, err := p.missingRights(ctx, n)
	if err != nil {
		return notChecked(err, "")
	}
	missing = slices.DeleteFunc(missing, func(l missingRight) bool { return l.cost == "" })
	if len(missing) == 0 {
		return ok("all %d optional rights", len(p.optional())+len(p.places("")))
	}
	var costs []string
	for _, l := range missing {
		if !slices.Contains(costs, l.cost) {
			costs = append(costs, l.cost)
		}
	}
	denied, unknown := split(missing)
	return warn(lack(denied, unknown, "the optional ")+": "+strings.Join(costs, "; "), "if that matters, "+remedy(denied, unknown, "")).
		with("missing", denied).with("unknown", unknown)
}

// split separates rights that ACL SETUSER can give to the user from commands that the server does not have.
func split(missing []missingRight) (denied, unknown []string) {
	denied, unknown = []string{}, []string{} // for JSON
	for _, l := range missing {
		if l.unknown {
			unknown = append(unknown, strings.ToUpper(strings.ReplaceAll(l.word[1:], "|", " ")))
		} else {
			denied = append(denied, l.word)
		}
	}
	return denied, unknown
}

// lack says which rights the user lacks, and which the server. One of the lists is not empty.
func lack(denied, unknown []string, kind string) string {
	var says []string
	if len(denied) > 0 {
		says = append(says, "this user lacks "+kind+strings.Join(denied, " "))
	}
	if len(unknown) > 0 {
		says = append(says, "the server lacks "+kind+strings.Join(unknown, " "))
	}
	return strings.Join(says, ", and ")
}

// remedy is the advice about missing rights.
func remedy(denied, unknown []string, where string) string {
	var steps []string
	if len(denied) > 0 {
		steps = append(steps, "ACL SETUSER NAME "+strings.Join(denied, " ")+where)
	}
	if len(unknown) > 0 {
		steps = append(steps, "see the check version and rename-command in redis.conf, or use another service")
	}
	return strings.Join(steps, "; ")
}

func (p *target) optional() []right {
	return slices.DeleteFunc(slices.Clone(p.wanted()), func(r right) bool { return r.cost == "" })
}

// wanted are the rights for this kind of server.
func (p *target) wanted() []right {
	if _, cluster := p.rdb.(*redis.ClusterClient); cluster {
		return slices.Concat(rights, clusterRights)
	}
	return rights
}

// missingRights checks each right. A missing right on keys or channels is reported once.
func (p *target) missingRights(ctx context.Context, n *node) (missing []missingRight, err error) {
	id := "doctor-" + uuid.NewString()
	key, channel := p.space().Key(id, "nothing"), p.space().WakePrefix()+id
	for _, r := range p.wanted() {
		err := r.ask(ctx, n, key, channel)
		if err != nil && !failure.IsReply(err) {
			return nil, err // about more than this right
		}
		l := missingRight{r, failure.UnknownCommand(err, "")}
		if failure.Denied(err) {
			l.right = p.deniedRight(r, err)
		} else if !l.unknown {
			continue
		}
		if !names(missing, l.word) {
			missing = append(missing, l)
		}
	}
	some, err := p.missingPlaces(ctx, n, id, missing)
	return append(missing, some...), err
}

// missingPlaces checks the rights on places, but for commands and places that are missing anyway.
func (p *target) missingPlaces(ctx context.Context, n *node, id string, missing []missingRight) (more []missingRight, err error) {
	for _, r := range p.places(id) {
		err := r.ask(ctx, n, "", "")
		if err != nil && !failure.IsReply(err) {
			return nil, err
		}
		if failure.Denied(err) && !failure.DeniedCommand(err, "") && !names(missing, p.everyPlace(r.word[:1])) {
			more = append(more, missingRight{right: r})
		}
	}
	return more, nil
}

func names(missing []missingRight, word string) bool {
	return slices.ContainsFunc(missing, func(m missingRight) bool { return m.word == word })
}

// deniedRight is the right that a refusal is about: the command, its keys or its channel.
func (p *target) deniedRight(r right, err error) right {
	switch {
	case failure.DeniedCommand(err, ""):
		return r
	case failure.DeniedChannel(err):
		return right{word: p.everyPlace("&"), cost: r.cost}
	}
	return right{word: p.everyPlace("~")}
}

// everyPlace is the right on all keys, ~, or all channels, &, of the prefix.
func (p *target) everyPlace(sign string) string { return sign + p.Prefix + ":*" }

// receiveTimeout is how long a message may take.
const receiveTimeout = 2 * time.Second

// channel checks that a message of one connection is received by another; in a cluster, through every primary.
func channel(ctx context.Context, p *target) []Finding {
	name := p.space().WakePrefix() + "doctor-" + uuid.NewString()
	sub := p.nodes[0].rdb.Subscribe(ctx, name) // p.rdb may choose a node of a cluster that is down
	defer sub.Close()
	if _, err := sub.ReceiveTimeout(ctx, receiveTimeout); failure.Denied(err) {
		return []Finding{notChecked(err, "+subscribe, or &"+p.Prefix+":*")}
	} else if err != nil {
		return []Finding{warn(fmt.Sprintf("no subscription within %v: %v: %s", receiveTimeout, failure.Discreet(err), noMessages), "check proxies in between, if other commands work")}
	}
	var worst time.Duration
	for _, n := range p.nodes {
		began := time.Now()
		if err := n.rdb.Publish(ctx, name, n.addr).Err(); err != nil {
			return []Finding{notChecked(err, "+publish")}
		}
		if !receives(ctx, sub, n.addr) {
			return []Finding{warn(fmt.Sprintf("a message sent through %s was not received within %v: %s", n.addr, receiveTimeout, noMessages),
				"check that the servers of a cluster reach each other, and that no proxy holds messages back")}
		}
		worst = max(worst, time.Since(began))
	}
	return []Finding{ok("a message is received within %v", short(worst)).with("worst_ms", millis(worst))}
}

func receives(ctx context.Context, sub *redis.PubSub, text string) bool {
	for end := time.Now().Add(receiveTimeout); time.Until(end) > 0; {
		got, err := sub.ReceiveTimeout(ctx, time.Until(end))
		if m, is := got.(*redis.Message); err == nil && is && m.Payload == text {
			return true
		}
		if err != nil {
			return false
		}
	}
	return false
}
