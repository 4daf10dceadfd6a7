package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// traffic is the commands that clients sent to the server, and the messages that were published. It comes from MONITOR, because
// INFO commandstats does not distinguish commands of scripts from those of clients.
type traffic struct {
	Commands  map[string]int // by clients
	Published map[string]int // by scripts and clients, by channel
}

func (t traffic) commands() int {
	var n int
	for _, c := range t.Commands {
		n += c
	}
	return n
}

// monitor reads the output of MONITOR.
type monitor struct {
	conn    net.Conn
	ended   chan struct{}
	seen    traffic // until ended is closed, only read uses it
	failure error   // likewise
}

// startMonitor starts to count. The caller must stop the monitor.
func (s *server) startMonitor() (*monitor, error) {
	conn, err := net.Dial("tcp", s.addr())
	if err != nil {
		return nil, err
	}
	t := &monitor{conn: conn, ended: make(chan struct{}), seen: traffic{map[string]int{}, map[string]int{}}}
	in := bufio.NewReader(conn)
	if _, err = io.WriteString(conn, "MONITOR\r\n"); err == nil {
		var line string
		if line, err = in.ReadString('\n'); err == nil && !strings.HasPrefix(line, "+OK") {
			err = fmt.Errorf("MONITOR: %s", strings.TrimSpace(line))
		}
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go t.read(in) // ends with the connection; stop closes it and waits
	return t, nil
}

// monitorDelay is how long MONITOR may take to report an executed command.
const monitorDelay = 50 * time.Millisecond

// stop stops the monitor and returns its counts.
func (t *monitor) stop() (traffic, error) {
	time.Sleep(monitorDelay)
	_ = t.conn.Close() // nothing more is read
	<-t.ended
	return t.seen, t.failure
}

func (t *monitor) read(in *bufio.Reader) {
	defer close(t.ended)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.failure = err
			return
		}
		t.seen.add(line)
	}
}

// add counts one line, such as
//
//	+1763720000.123456 [0 127.0.0.1:40000] "evalsha" "6f…"
//	+1763720000.123456 [0 lua] "publish" "fairsem:wake:…" "…"
func (t traffic) add(line string) {
	who, what, ok := strings.Cut(line, "] \"")
	if !ok {
		return
	}
	words := strings.SplitN(what, "\"", 4)
	command := strings.ToUpper(words[0])
	if command == "PUBLISH" && len(words) > 2 {
		t.Published[words[2]]++
	}
	if !strings.HasSuffix(who, " lua") {
		t.Commands[command]++
	}
}
