package fairsem

import (
	"testing"
	"time"
)

func resizing(pin int64) func(*lab, []*ticket) call {
	return func(l *lab, _ []*ticket) call { return l.space.resize("name", quota{limit: 3}, pin) }
}

func evicting(id string) func(*lab, []*ticket) call {
	return func(l *lab, _ []*ticket) call { return l.space.evict("name", quota{limit: 3}, id) }
}

func TestResizeScript(t *testing.T) {
	const line = "owner me:1=5 | queue you:1=6 me:2=7 you:2=8 | timeout me:1=20s me:2=20s you:1=20s you:2=20s | counter 8"
	const meta = " | meta declared=1 layout=1 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "pins a limit on a name that nobody uses",
		call:  resizing(4),
		state: "meta layout=1 pinned=4",
	}, {
		name:  "lets those in who fit now, and tells them",
		seed:  line + meta,
		call:  resizing(3),
		wake:  "me 2:7:#2, you 1:6:#1",
		state: "owner me:1=5 you:1=#1 me:2=#2 | queue you:2=8 | timeout me:1=20s me:2=20s you:1=20s you:2=20s | counter #2 | meta declared=1 layout=1 pinned=3 since=7 until=80s",
	}, {
		name:  "lets nobody in under 0",
		seed:  "queue you:1=6 | timeout you:1=20s | counter 8" + meta,
		call:  resizing(0),
		state: "queue you:1=6 | timeout you:1=20s | counter 8 | meta declared=1 layout=1 pinned=0 since=7 until=80s",
	}, {
		name:  "puts out who can never fit, also while nothing is free",
		seed:  "owner me:1=5 me:2=6 | queue you:1=7 you:2=8 | timeout me:1=20s me:2=20s you:1=20s you:2=20s | counter 8 | weight you:1=3" + meta,
		call:  resizing(2),
		wake:  "you 1:7:0",
		state: "owner me:1=5 me:2=6 | queue you:2=8 | timeout me:1=20s me:2=20s you:2=20s | counter 8 | meta declared=1 layout=1 pinned=2 since=7 until=80s",
	}, {
		name:  "takes the pin away, and lets those in who fit the declared limit",
		seed:  "queue you:1=6 you:2=7 | timeout you:1=20s you:2=20s | counter 8 | meta declared=1 layout=1 pinned=0 since=7 until=80s",
		call:  resizing(unpin),
		wake:  "you 1:6:#1",
		state: "owner you:1=#1 | queue you:2=7 | timeout you:1=20s you:2=20s | counter #1" + meta,
	}, {
		name:  "gives a name that nobody uses an end again",
		seed:  "meta layout=1 pinned=0",
		call:  resizing(unpin),
		state: "meta layout=1 until=20s",
	}, {
		name: "takes away no pin where there is none, and leaves nothing",
		call: resizing(unpin),
	}})
}

func TestEvictScript(t *testing.T) {
	const seed = "owner me:1=5 you:1=6 | queue you:2=7 you:3=8 | timeout me:1=20s you:1=40s you:2=40s you:3=40s | counter 8 | weight extra=1 me:1=2"
	const meta = " | meta declared=3 layout=1 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "takes a holder out, tells it, and lets in who fits now",
		seed:  seed + meta,
		ids:   []string{"me:1"},
		call:  evicting("me:1"),
		reply: "held",
		wake:  "me 1:5:0, you 2:7:#1,3:8:#2",
		state: "owner you:1=6 you:2=#1 you:3=#2 | timeout me:1=20s you:1=40s you:2=40s you:3=40s | counter #2" + meta,
	}, {
		name:  "takes a waiter out, and leaves its deadline as a tombstone",
		seed:  seed + meta,
		ids:   []string{"you:2"},
		call:  evicting("you:2"),
		reply: "waiting",
		wake:  "you 2:7:0",
		state: "owner me:1=5 you:1=6 | queue you:3=8 | timeout me:1=20s you:1=40s you:2=40s you:3=40s | counter 8 | weight extra=1 me:1=2" + meta,
	}, {
		name:  "the last one, whose tombstone expires",
		seed:  "owner me:1=5 | timeout me:1=20s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  evicting("me:1"),
		reply: "held",
		wake:  "me 1:5:0",
		state: "timeout me:1=20s | counter 8" + meta,
	}, {
		name:  "nobody twice",
		seed:  "timeout me:1=20s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  evicting("me:1"),
		reply: "gone",
	}, {
		name:  "nobody of a name that is not used",
		ids:   []string{"me:1"},
		call:  evicting("me:1"),
		reply: "gone",
	}})
}

// A rate of 3 units in 60 s, from whoever has known of it since 7.
var threeAMinute = declaration{quota{3, time.Minute}, 7, -time.Second}

func taking(wait bool) func(*lab, []*ticket) call {
	return func(l *lab, ids []*ticket) call {
		return l.space.about("name").acquire(threeAMinute, terms{ttl: 10 * time.Second, wait: wait}, ids)
	}
}

func TestScriptsOfARate(t *testing.T) {
	const meta = " | meta declared=3/60000 layout=1 since=7 until=80s"
	const full = "owner you:1=5 you:2=6 you:3=7 | timeout you:1=20s you:2=30s you:3=40s | counter 8"
	checkAll(t, []contract{{
		name:  "a grant lapses a window later, whatever the lease",
		ids:   []string{"me:1"},
		call:  taking(false),
		reply: "held #1",
		state: "owner me:1=#1 | timeout me:1=60s | counter #1" + meta,
	}, {
		name:  "sent again it is the same grant, and lapses no later",
		seed:  "owner me:1=5 | timeout me:1=20s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  taking(false),
		reply: "held 5",
	}, {
		name: "no renewal makes it last",
		seed: "owner me:1=5 | timeout me:1=20s | counter 8" + meta,
		ids:  []string{"me:1"},
		call: func(l *lab, ids []*ticket) call {
			return l.space.about("name").refresh(threeAMinute, time.Minute, false, ids)
		},
		reply: "held 5",
	}, {
		name:  "what lapsed makes room",
		seed:  "owner you:1=5 you:2=6 you:3=7 | timeout you:1=-10s you:2=30s you:3=40s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  taking(false),
		reply: "held #1",
		state: "owner you:2=6 you:3=7 me:1=#1 | timeout you:2=30s you:3=40s me:1=60s | counter #1" + meta,
	}, {
		name:  "who waits keeps a lease, and hears when its turn comes",
		seed:  full + meta,
		ids:   []string{"me:1", "me:2"},
		call:  taking(true),
		reply: "waiting #1, waiting #2, next 20s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue me:1=#1 me:2=#2 | timeout me:1=10s me:2=10s you:1=20s you:2=30s you:3=40s | counter #2" + meta,
	}, {
		name:  "who is second in line hears of the second that lapses",
		seed:  "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 | timeout you:1=20s you:2=30s you:3=40s you:4=70s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  taking(true),
		reply: "waiting #1, next 30s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 me:1=#1 | timeout me:1=10s you:1=20s you:2=30s you:3=40s you:4=70s | counter #1" + meta,
	}, {
		name:  "a line beyond the limit takes whole windows more",
		seed:  "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 you:5=9 you:6=10 | timeout you:1=20s you:2=30s you:3=40s you:4=70s you:5=70s you:6=70s | counter 10" + meta,
		ids:   []string{"me:1"},
		call:  taking(true),
		reply: "waiting #1, next 80s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 you:5=9 you:6=10 me:1=#1 | timeout me:1=10s you:1=20s you:2=30s you:3=40s you:4=70s you:5=70s you:6=70s | counter #1" + meta,
	}, {
		name:  "weights count",
		seed:  "owner you:1=5 you:2=6 | timeout you:1=20s you:2=40s | counter 8 | weight extra=1 you:2=2" + meta,
		ids:   []string{"me:1*2"},
		call:  taking(true),
		reply: "waiting #1, next 40s",
		state: "owner you:1=5 you:2=6 | queue me:1=#1 | timeout me:1=10s you:1=20s you:2=40s | counter #1 | weight extra=1 me:1=2 you:2=2" + meta,
	}, {
		name: "who is let in from the line has it for a window, too",
		seed: "owner you:1=5 you:2=6 | queue you:3=7 | timeout you:3=10s you:1=20s you:2=30s | counter 8" + meta,
		call: func(l *lab, _ []*ticket) call {
			return l.space.about("name").refresh(threeAMinute, 20*time.Second, false, nil)
		},
		reply: "next 10s",
		wake:  "you 3:7:#1",
		state: "owner you:1=5 you:2=6 you:3=#1 | timeout you:1=20s you:2=30s you:3=60s | counter #1" + meta,
	}})
}
