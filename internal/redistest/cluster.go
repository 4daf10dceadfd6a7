package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	primaries   = 3
	slots       = 16384
	formTimeout = 30 * time.Second // ten times as long as it takes on a busy machine
)

// Cluster is three primaries and three replicas. Its methods may be called from any goroutine.
type Cluster struct {
	// Nodes contains all six nodes, also those that are paused or killed. The first three start as primaries. Nodes[i+3]
	// starts as the replica of Nodes[i].
	Nodes  []*Server
	client *redis.ClusterClient
}

// StartCluster starts a cluster. It returns once every node sees that all slots are served, and every replica is in sync with
// its primary. A node counts as failed after 2 s without an answer. If StartCluster fails, it leaves nothing behind.
func StartCluster() (*Cluster, error) {
	var errs []error
	for range 3 {
		c, err := startCluster()
		if !errors.Is(err, errForeignNode) && !errors.Is(err, errNotReady) {
			return c, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// errNotReady means that the nodes do not all see the whole cluster. A node whose greetings were lost on a busy machine may never see it.
var errNotReady = errors.New("the cluster is not complete")

// errForeignNode means that a node of another cluster has joined. That happens when a node of the other cluster used one of our
// ports before: nodes keep trying to reach the nodes that they know.
var errForeignNode = errors.New("a node of another cluster has joined")

func startCluster() (*Cluster, error) {
	nodes, err := startAll(2*primaries, setup{
		config:  clusterNode,
		busPort: true,
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Nodes: nodes, client: redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs(nodes)})}
	if err := c.form(); err != nil {
		return nil, errors.Join(fmt.Errorf("redistest: form the cluster: %w", err), c.Stop())
	}
	return c, nil
}

// startPatientCluster is for many tests at once, none of which needs a failover. On a busy machine a node of StartCluster takes another for
// gone that does not run for a second, and messages that are published until they are connected again are lost.
func startPatientCluster() (*Cluster, error) {
	c, err := StartCluster()
	if err != nil {
		return nil, err
	}
	for _, n := range c.Nodes {
		err = errors.Join(err, n.do("CONFIG", "SET", "cluster-node-timeout", 15_000).Err())
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

const clusterNode = memoryOnly + "cluster-enabled yes\ncluster-node-timeout 2000\ncluster-announce-ip 127.0.0.1\n"

// Client returns a client of the whole cluster. It is always the same one. Stop closes it.
func (c *Cluster) Client() *redis.ClusterClient { return c.client }

// Primaries returns the nodes that report that they are primaries. It omits nodes that do not answer.
func (c *Cluster) Primaries() []*Server {
	var found []*Server
	for _, n := range c.Nodes {
		if n.role() == "master" {
			found = append(found, n)
		}
	}
	return found
}

// Owner returns the node that serves key now. It fails if no node does, for example during a failover. On a busy machine a node can
// take longer than do waits, so it asks more than once.
func (c *Cluster) Owner(key string) (*Server, error) {
	var errs []error
	for range 3 {
		errs = nil
		for _, n := range c.Nodes {
			err := n.do("EXISTS", key).Err()
			if err == nil {
				return n, nil
			}
			errs = append(errs, err)
		}
		if !slices.ContainsFunc(errs, isTimeout) {
			break
		}
	}
	return nil, fmt.Errorf("redistest: no node serves %q: %w", key, errors.Join(errs...))
}

// Lose kills Nodes[i], with i below 3, and the node that started as its replica, so that nobody takes over: its slots have no server. The
// other nodes, of which none may be down, go on with theirs.
func (c *Cluster) Lose(i int) error {
	lost := []*Server{c.Nodes[i], c.Nodes[i+primaries]}
	for _, n := range c.Nodes {
		if slices.Contains(lost, n) {
			continue
		}
		if err := n.do("CONFIG", "SET", "cluster-require-full-coverage", "no").Err(); err != nil {
			return err
		}
	}
	return errors.Join(lost[1].Kill(), lost[0].Kill()) // the replica first: it cannot be promoted
}

// Stop stops all nodes and closes the client, like [Server.Stop].
func (c *Cluster) Stop() error {
	return errors.Join(ignoreClosed(c.client.Close()), StopAll(c.Nodes))
}

// form joins the six nodes to a cluster.
func (c *Cluster) form() error {
	for i, n := range c.Nodes {
		// Each node gets its own epoch. Otherwise the nodes spend the first seconds on resolving collisions.
		if err := n.do("CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		if i < primaries {
			if err := n.do(addSlots(i*slots/primaries, (i+1)*slots/primaries)...).Err(); err != nil {
				return err
			}
		}
	}
	if err := c.meet(); err != nil {
		return err
	}
	for i, n := range c.Nodes[primaries:] {
		if err := c.replicate(n, c.Nodes[i]); err != nil {
			return err
		}
	}
	var foreign error // waiting does not help against it
	err := await(formTimeout, nil, func() error {
		err := c.ready()
		if errors.Is(err, errForeignNode) {
			foreign, err = err, nil
		}
		return err
	})
	return errors.Join(err, foreign)
}

// addSlots gives a node the slots from first to before end. ADDSLOTSRANGE exists since Redis 7.
func addSlots(first, end int) []any {
	command := []any{"CLUSTER", "ADDSLOTS"}
	for slot := first; slot < end; slot++ {
		command = append(command, slot)
	}
	return command
}

// meet makes every node meet every other one directly, because gossip takes a second longer.
func (c *Cluster) meet() error {
	for i, n := range c.Nodes {
		for _, other := range c.Nodes[:i] {
			host, port, _ := strings.Cut(other.addr, ":")
			if err := n.do("CLUSTER", "MEET", host, port).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// replicate makes replica a replica of primary. It retries until it knows that, which takes a handshake.
func (c *Cluster) replicate(replica, primary *Server) error {
	id, err := primary.do("CLUSTER", "MYID").Text()
	if err != nil {
		return err
	}
	return await(formTimeout, nil, func() error {
		if err := replica.do("CLUSTER", "REPLICATE", id).Err(); err != nil {
			return fmt.Errorf("%w: %w", errNotReady, err)
		}
		return nil
	})
}

// ready checks more than cluster_state:ok, which a node reports even while it has no replicas.
func (c *Cluster) ready() error {
	for i, n := range c.Nodes {
		if err := n.seesCluster(); err != nil {
			return fmt.Errorf("%s: %w", n.addr, err)
		}
		if i >= primaries && !n.inSync() {
			return fmt.Errorf("%w: %s is not in sync with its master", errNotReady, n.addr)
		}
	}
	return c.client.ForEachShard(context.Background(), func(ctx context.Context, n *redis.Client) error {
		return n.Ping(ctx).Err()
	})
}

// knowsNodes returns errForeignNode if the server knows more nodes than the cluster has. Those with which it exchanges names do not count:
// two nodes that meet each other know each other twice for a moment.
func (s *Server) knowsNodes() error {
	nodes, err := s.do("CLUSTER", "NODES").Text()
	if err != nil {
		return err
	}
	known := 0
	for node := range strings.Lines(nodes) {
		if flags := strings.Fields(node); len(flags) > 2 && !strings.Contains(flags[2], "handshake") {
			known++
		}
	}
	if known > 2*primaries {
		return errForeignNode
	}
	return nil
}

// seesCluster returns nil if the server reports the state ok and knows a primary and a replica for every slot.
func (s *Server) seesCluster() error {
	info, err := s.do("CLUSTER", "INFO").Text()
	if err != nil {
		return err
	}
	if err := s.knowsNodes(); err != nil {
		return err
	}
	if state, known := field(info, "cluster_state"), field(info, "cluster_known_nodes"); state != "ok" || known != strconv.Itoa(2*primaries) {
		return fmt.Errorf("%w: state %s, %s nodes are known", errNotReady, state, known)
	}
	ranges, err := s.do("CLUSTER", "SLOTS").Slice()
	if err != nil {
		return err
	}
	if len(ranges) != primaries {
		return fmt.Errorf("%w: %d slot ranges", errNotReady, len(ranges))
	}
	for _, r := range ranges {
		// A range has its first slot, its last slot, then the nodes.
		if r, ok := r.([]any); !ok || len(r) != 4 {
			return fmt.Errorf("%w: a slot range without its replica", errNotReady)
		}
	}
	return nil
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
