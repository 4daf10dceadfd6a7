package doctor

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/primaries"
)

// target is the server, or the servers, to be checked.
type target struct {
	Options
	server *dial.Server
	rdb    redis.UniversalClient
	nodes  []*node
	silent []*node // of a cluster of which others answer
	answer error   // the first of the server, nil: to a PING
}

// node is a server that has keys of its own: the only one, or a primary of a cluster.
type node struct {
	rdb  *redis.Client
	addr string
	info map[string]string
	err  error // why there is no info

	answer error // to a PING, where the user may not read INFO; nil: it was answered
}

// connect finds the nodes and queries their INFO. Nodes of a cluster that do not answer are no nodes to check, as long as others do.
func (p *target) connect(ctx context.Context) (Finding, bool) {
	cluster, ok := p.rdb.(*redis.ClusterClient)
	if !ok {
		p.nodes = []*node{{rdb: p.rdb.(*redis.Client), addr: p.server.String()}}
	} else if err := p.primaries(ctx, cluster); err != nil || len(p.nodes) == 0 {
		return noCluster(cmp.Or(p.answer, err)), false
	}
	for _, n := range p.nodes {
		var text string
		if text, n.err = n.rdb.Info(ctx).Result(); n.err == nil {
			n.info = fields(text)
		}
		if failure.Denied(n.err) {
			n.answer = n.rdb.Ping(ctx).Err()
		}
		switch {
		case failure.DeniedCommand(n.err, "select"):
			return noSelect(), false
		case failure.NoSuchDatabase(n.err):
			return noDatabase(), false
		}
	}
	silent := func(n *node) bool { return n.err != nil && !failure.IsReply(n.err) }
	if there := slices.DeleteFunc(slices.Clone(p.nodes), silent); len(there) > 0 {
		p.silent = slices.DeleteFunc(slices.Clone(p.nodes), func(n *node) bool { return !silent(n) })
		p.nodes = there
	}
	return Finding{}, true
}

func (p *target) primaries(ctx context.Context, cluster *redis.ClusterClient) error {
	all, err := primaries.Of(ctx, cluster, primaries.Go)
	for _, n := range all {
		p.nodes = append(p.nodes, &node{rdb: n, addr: n.Options().Addr})
	}
	slices.SortFunc(p.nodes, func(a, b *node) int { return strings.Compare(a.addr, b.addr) })
	return err
}

// noSelect is for a user without the right to choose the database of the URL, so that every command is refused.
func noSelect() Finding {
	return fail("this user may not use a database other than 0: +select is missing, without which calls fail",
		"ACL SETUSER NAME +select on every server, or use database 0").of("rights").with("missing", []string{"+select"})
}

func noDatabase() Finding {
	return fail("the server has no database of the number in its address", "give another number, or raise databases in redis.conf").of("mode")
}

// noCluster says why the servers of a cluster are not known.
func noCluster(err error) Finding {
	switch {
	case failure.Denied(err):
		return fail("this user may not query the nodes of the cluster: +cluster|slots is missing", "ACL SETUSER ... +cluster|slots on every node").
			of("rights").with("missing", []string{"+cluster|slots"})
	case failure.NotClustered(err):
		return fail("the server is not part of a cluster", "begin the address with redis:// instead of cluster://").of("mode")
	}
	return fail(fmt.Sprintf("the cluster does not report its servers: %v", failure.Discreet(err)), "check the reply to CLUSTER SLOTS there").of("mode")
}

// fields takes the answer to INFO apart.
func fields(info string) map[string]string { return pairs(strings.Lines(info), ":") }

// pairs are names and values with a separator between them.
func pairs(parts iter.Seq[string], separator string) map[string]string {
	all := make(map[string]string)
	for part := range parts {
		if name, value, ok := strings.Cut(strings.TrimSpace(part), separator); ok {
			all[name] = value
		}
	}
	return all
}

// nodeCheck checks one node.
type nodeCheck func(context.Context, *target, *node) Finding

// withInfo is a check that needs the INFO of the node.
func withInfo(check nodeCheck) nodeCheck {
	return func(ctx context.Context, p *target, n *node) Finding {
		if n.info == nil {
			return notChecked(n.err, "+info")
		}
		return check(ctx, p, n)
	}
}

// fromInfo is a check of the reply of INFO.
func fromInfo(judge func(info map[string]string) Finding) nodeCheck {
	return withInfo(func(_ context.Context, _ *target, n *node) Finding { return judge(n.info) })
}

// each checks every node. Results that are ok share one line; the others have one for each node.
func each(ask nodeCheck) func(context.Context, *target) []Finding {
	return func(ctx context.Context, p *target) (all []Finding) {
		var well []Finding
		details := make(map[string]any)
		for _, n := range p.nodes {
			f := ask(ctx, p, n)
			if len(p.nodes) == 1 {
				return []Finding{f}
			}
			f.Message = n.addr + ": " + f.Message
			details[n.addr] = f.Details
			if f.State == OK {
				well = append(well, f)
			} else {
				all = append(all, f.with("node", n.addr))
			}
		}
		if len(well) > 0 {
			f := well[0]
			f.Details = details
			if len(well) > 1 {
				f.Message += fmt.Sprintf("; the same on %d more", len(well)-1)
			}
			all = append(all, f)
		}
		return all
	}
}
