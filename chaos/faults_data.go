package main

import (
	"fmt"
	"time"
)

// Deleting keys revokes permits on which their holders still rely. Tokens still increase, so a fenced store still loses no write.
var deleteExempt = []promise{limitOnServer, limitByContext, oneOrder, oneState, fifo, liveOnArrival, lossReported, deadReleased, grantsResume}

// dataFaults change the keys as another program may do.
func dataFaults() []fault {
	all := []fault{{name: "FLUSHALL", kind: single, exempt: deleteExempt, strike: command("FLUSHALL")}}
	for _, key := range []string{"owner", "queue", "timeout", "weight", "meta"} {
		all = append(all, fault{name: "DEL of " + key, kind: single, sparesOthers: true, exempt: deleteExempt, strike: deleteKey(key)})
	}
	return append(all,
		fault{name: "DEL of counter", kind: single, sparesOthers: true, strike: deleteKey("counter")},
		fault{name: "a key of the wrong type", kind: single, sparesOthers: true, exempt: deleteExempt, strike: wrongType})
}

func keyOf(name, key string) string { return "fairsem:{" + name + "}:" + key }

// randomName returns the semaphore to strike.
func (env *environment) randomName() string { return []string{poolName, soloName}[env.random.IntN(2)] }

func deleteKey(key string) func(*environment) (string, error) {
	return func(env *environment) (string, error) {
		name := env.randomName()
		return fmt.Sprintf("DEL %s of %s", key, name), env.deployment.do("DEL", keyOf(name, key))
	}
}

// wrongType replaces a key by one of another type for a while.
func wrongType(env *environment) (string, error) {
	keys := []string{"owner", "queue", "timeout", "counter", "weight", "meta"}
	key := keyOf(env.randomName(), keys[env.random.IntN(len(keys))])
	if err := env.deployment.do("EVAL", `redis.call("DEL", KEYS[1]); return redis.call("LPUSH", KEYS[1], "no")`, 1, key); err != nil {
		return "", err
	}
	d := env.wait(50*time.Millisecond, 1500*time.Millisecond)
	return fmt.Sprintf("%s was a list for %v", key, d), env.deployment.do("DEL", key)
}
