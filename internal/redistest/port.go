package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Servers listen below the range from which the kernel takes the ports of outgoing connections (from 32768 on Linux). Inside
// that range, a client that keeps dialling a killed server can get the server's own port as its local port. It then connects to
// itself, and the server cannot start again. A cluster node also needs the port that is busOffset higher.
const (
	firstPort = 11000
	lastPort  = 20999
	busOffset = 10000
)

// ports are a block of ports that no other process has: with the port of a server that was killed, another's server would answer in its
// place.
type ports struct {
	blocks []int // the first port of each block, which are tried in this order

	mu    sync.Mutex
	guard net.Listener // on the first port of the block: as long as it listens, the block is taken
	first int
	given int // how many ports, over and over
}

const blockSize = 100

var ownPorts = ports{blocks: shuffled()}

func shuffled() (blocks []int) {
	for _, n := range rand.Perm((lastPort + 1 - firstPort) / blockSize) {
		blocks = append(blocks, firstPort+n*blockSize)
	}
	return blocks
}

// next returns a port that was free a moment ago. It returns it again only after all others of the block.
func (p *ports) next(busPort bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reserve(); err != nil {
		return 0, err
	}
	var err error
	for range blockSize - 1 {
		port := p.first + 1 + p.given%(blockSize-1)
		p.given++
		err = isFree(port)
		if err == nil && busPort {
			err = isFree(port + busOffset)
		}
		if err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("redistest: no free port: %w", err)
}

// reserve takes a block that nobody has, if there is none yet.
func (p *ports) reserve() (err error) {
	if p.guard != nil {
		return nil
	}
	for _, p.first = range p.blocks {
		if p.guard, err = listen(p.first); err == nil {
			return nil
		}
	}
	return fmt.Errorf("redistest: no free block of ports: %w", err)
}

func isFree(port int) error {
	l, err := listen(port)
	if err != nil {
		return err
	}
	return l.Close()
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
}
