package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Servers listen below the range from which the kernel takes the ports of outgoing connections (from 32768 on Linux). Inside
// that range, a client that keeps dialling a killed server can get the server's own port as its local port. It then connects to
// itself, and the server cannot start again. A cluster node also needs the port that is busOffset higher.
const (
	firstPort = 11000
	lastPort  = 21999
	busOffset = 10000
)

// freePort returns a port that was free a moment ago.
func freePort(busPort bool) (int, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
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

func isFree(port int) error {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	return l.Close()
}
