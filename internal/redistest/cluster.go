package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	masters = 3
	slots   = 16384
)

// Cluster is three masters and three replicas. Its methods may be called from any goroutine.
type Cluster struct {
	// Nodes are all six, paused, killed or not. The first three start as masters; Nodes[i+3] starts as the replica of
	// Nodes[i].
	Nodes  []*Server
	client *redis.ClusterClient
}

// StartCluster returns a cluster once every node sees all slots served and every replica is in step with its master.
// A node counts as failed after 2 s of silence. On failure nothing is left behind.
func StartCluster() (c *Cluster, err error) {
	for range 3 {
		if c, err = startCluster(); !errors.Is(err, errStranger) {
			break
		}
	}
	return c, err
}

// errStranger: a node of another cluster has joined, because one of the ports was of a node of it before: nodes try again
// and again to reach those that they knew.
var errStranger = errors.New("a node of another cluster has joined")

func startCluster() (*Cluster, error) {
	nodes, err := startAll(2*masters, setup{
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

const clusterNode = memoryOnly + "cluster-enabled yes\ncluster-node-timeout 2000\ncluster-announce-ip 127.0.0.1\n"

// Client returns a client of the whole cluster, always the same one. Stop closes it.
func (c *Cluster) Client() *redis.ClusterClient { return c.client }

// Masters returns the nodes that call themselves masters now. One that does not answer within a second is left out.
func (c *Cluster) Masters() []*Server {
	var found []*Server
	for _, n := range c.Nodes {
		if n.role() == "master" {
			found = append(found, n)
		}
	}
	return found
}

// Owner returns the node that serves key now. It fails when none does, as during a failover.
func (c *Cluster) Owner(key string) (*Server, error) {
	var errs []error
	for _, n := range c.Nodes {
		err := n.ask("EXISTS", key).Err()
		if err == nil {
			return n, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("redistest: no node serves %q: %w", key, errors.Join(errs...))
}

// Stop stops all nodes and closes the client, like [Server.Stop].
func (c *Cluster) Stop() error {
	return errors.Join(ignoreClosed(c.client.Close()), stopAll(c.Nodes))
}

// form turns six strangers into a cluster.
func (c *Cluster) form() error {
	for i, n := range c.Nodes {
		// Distinct epochs from the start: otherwise the nodes spend the first seconds on settling collisions.
		if err := n.ask("CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		if i < masters {
			if err := n.ask("CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
				return err
			}
		}
	}
	if err := c.introduce(); err != nil {
		return err
	}
	for i, n := range c.Nodes[masters:] {
		if err := c.replicate(n, c.Nodes[i]); err != nil {
			return err
		}
	}
	var stranger error // which no waiting heals
	err := await(groupLimit, nil, func() error {
		err := c.ready()
		if errors.Is(err, errStranger) {
			stranger, err = err, nil
		}
		return err
	})
	return errors.Join(err, stranger)
}

// introduce makes every node meet every other one directly, because gossip takes a second more.
func (c *Cluster) introduce() error {
	for i, n := range c.Nodes {
		for _, other := range c.Nodes[:i] {
			host, port, _ := strings.Cut(other.addr, ":")
			if err := n.ask("CLUSTER", "MEET", host, port).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// replicate waits until replica knows master, which takes a handshake.
func (c *Cluster) replicate(replica, master *Server) error {
	id, err := master.ask("CLUSTER", "MYID").Text()
	if err != nil {
		return err
	}
	return await(groupLimit, nil, func() error { return replica.ask("CLUSTER", "REPLICATE", id).Err() })
}

// ready asks for more than cluster_state:ok, which a node says while it misses replicas.
func (c *Cluster) ready() error {
	for i, n := range c.Nodes {
		if err := n.seesCluster(); err != nil {
			return fmt.Errorf("%s: %w", n.addr, err)
		}
		if i >= masters && !n.inSync() {
			return fmt.Errorf("%s: not in step with its master", n.addr)
		}
	}
	return c.client.ForEachShard(context.Background(), func(ctx context.Context, n *redis.Client) error {
		return n.Ping(ctx).Err()
	})
}

// seesCluster returns nil when the server says that all is well and knows a master and a replica for every slot.
func (s *Server) seesCluster() error {
	info, err := s.ask("CLUSTER", "INFO").Text()
	if err != nil {
		return err
	}
	known, err := strconv.Atoi(field(info, "cluster_known_nodes"))
	if err == nil && known > 2*masters {
		return errStranger
	}
	if field(info, "cluster_state") != "ok" || known != 2*masters {
		return errors.New("state is not ok yet")
	}
	ranges, err := s.ask("CLUSTER", "SLOTS").Slice()
	if err != nil {
		return err
	}
	if len(ranges) != masters {
		return fmt.Errorf("%d slot ranges", len(ranges))
	}
	for _, r := range ranges {
		// First slot, last slot, then the nodes.
		if r, ok := r.([]any); !ok || len(r) != 4 {
			return errors.New("a slot range without its replica")
		}
	}
	return nil
}
