package main

import (
	"fmt"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// Whoever deletes keys takes permits away that their holders still rely on. What is left are tokens, and
// so what a fenced store makes of them.
var deletes = []promise{onServer, held, linear, once, inOrder, alive, told, deadBack, works}

// dataFaults are what other programs do to the keys.
func dataFaults() []fault {
	all := []fault{{name: "FLUSHALL", kind: single, not: deletes, strike: command("FLUSHALL")}}
	for _, key := range protocol.Kinds {
		f := fault{name: "DEL of " + key, kind: single, spares: true, not: deletes, strike: deleteKey(key)}
		if key == protocol.Counter {
			f.not = nil
		}
		all = append(all, f)
	}
	return append(all,
		fault{name: "a key of the wrong type", kind: single, spares: true, not: deletes, strike: wrongType})
}

// space is where the workers have their keys.
var space = protocol.Keyspace{Prefix: "fairsem"}

func keyOf(name, kind string) string { return space.Key(name, kind) }

// someName is the semaphore that is hit.
func (a *arena) someName() string { return []string{poolName, soloName}[a.random.IntN(2)] }

func deleteKey(key string) func(*arena) (string, error) {
	return func(a *arena) (string, error) {
		name := a.someName()
		return fmt.Sprintf("DEL %s of %s", key, name), a.rig.ask("DEL", keyOf(name, key))
	}
}

// wrongType puts something else in the place of a key, for a while.
func wrongType(a *arena) (string, error) {
	key := keyOf(a.someName(), protocol.Kinds[a.random.IntN(len(protocol.Kinds))])
	if err := a.rig.ask("EVAL", `redis.call("DEL", KEYS[1]); return redis.call("LPUSH", KEYS[1], "no")`, 1, key); err != nil {
		return "", err
	}
	d := a.last(50*time.Millisecond, 1500*time.Millisecond)
	return fmt.Sprintf("%s was a list for %v", key, d), a.rig.ask("DEL", key)
}
