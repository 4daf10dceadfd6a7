package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// Deleting keys revokes permits on which their holders still rely. Tokens still increase, so a fenced store still loses no write. Single keys
// are those of pool and solo, which have neither tenants nor numbers, unless the key has to do with these.
var (
	deleteExempt = []promise{limitOnServer, limitByContext, oneOrder, oneState, fifo, liveOnArrival, lossReported, deadReleased, grantsResume}
	flushExempt  = slices.Concat(deleteExempt, []promise{fairShares, ownNumbers})
)

// dataFaults change the keys as another program may do.
func dataFaults() []fault {
	all := []fault{{name: "FLUSHALL", kind: single, exempt: flushExempt, maxPause: 2 * time.Second, strike: command("FLUSHALL")}}
	for _, key := range protocol.Kinds {
		f := fault{name: "DEL of " + key, kind: single, sparesOthers: true, exempt: deleteExempt, strike: deleteKey(key)}
		switch key {
		case protocol.Counter, protocol.Lanes, protocol.Turns: // their contents follow from the other keys, or from the clock
			f.exempt = nil
		case protocol.Tenants: // that also has their shares, their limits, and when each was granted something
			f.exempt = []promise{fairShares}
		case protocol.NumbersKey: // it is all that says which numbers are taken, so the permits that had some are lost
			f.exempt = []promise{liveOnArrival}
		}
		all = append(all, f)
	}
	return append(all,
		fault{name: "a key of the wrong type", kind: single, sparesOthers: true, exempt: flushExempt, strike: wrongType})
}

// space is where the workers have their keys.
var space = protocol.Keyspace{Prefix: "fairsem"}

func keyOf(name, kind string) string { return space.Key(name, kind) }

// randomName returns the semaphore to strike.
func (env *environment) randomName() string { return []string{poolName, soloName}[env.random.IntN(2)] }

// nameWith returns a semaphore that has keys of this kind.
func (env *environment) nameWith(key string) string {
	switch key {
	case protocol.Lanes, protocol.Turns, protocol.Tenants:
		return sharedName
	case protocol.NumbersKey:
		return slotsName
	case protocol.Weight: // every call of solo weighs 1
		return poolName
	}
	return env.randomName()
}

func deleteKey(key string) func(*environment) (string, error) {
	return func(env *environment) (string, error) {
		name := env.nameWith(key)
		return fmt.Sprintf("DEL %s of %s", key, name), env.deployment.do("DEL", keyOf(name, key))
	}
}

// wrongType replaces a key by one of another type for a while.
func wrongType(env *environment) (string, error) {
	kind := protocol.Kinds[env.random.IntN(len(protocol.Kinds))]
	key := keyOf(env.nameWith(kind), kind)
	if err := env.deployment.do("EVAL", `redis.call("DEL", KEYS[1]); return redis.call("LPUSH", KEYS[1], "no")`, 1, key); err != nil {
		return "", err
	}
	d := env.wait(50*time.Millisecond, 1500*time.Millisecond)
	return fmt.Sprintf("%s was a list for %v", key, d), env.deployment.do("DEL", key)
}
