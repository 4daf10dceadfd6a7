package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// wakeFaults concern the messages that notify waiters of grants.
func wakeFaults() []fault {
	return []fault{
		{name: "all wake messages lost", kind: single, smoke: true, noMessages: true, onlyMessages: true, strike: nothing},
		{name: "all wake messages lost, and kill -9", kind: single, noMessages: true, strike: killWorker},
		{name: "no right to the channels for a while", kind: single, onlyMessages: true, strike: revokeChannels},
		{name: "forged wake messages", kind: single, sparesOthers: true, onlyMessages: true, smoke: true, strike: forge},
		{name: "a flood of wake messages", kind: single, onlyMessages: true, strike: flood},
	}
}

// revokeChannels ends the subscriptions and refuses new ones for a while.
func revokeChannels(env *environment) (string, error) {
	if err := env.deployment.do("ACL", "SETUSER", workerUser, "resetchannels"); err != nil {
		return "", err
	}
	d := env.wait(200*time.Millisecond, 2*time.Second)
	return fmt.Sprintf("no channels for %v", d), env.deployment.do("ACL", "SETUSER", workerUser, "allchannels")
}

// channels returns the channels to which the workers subscribe.
func (env *environment) channels() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return env.deployment.monitor.PubSubChannels(ctx, space.WakePrefix()+"*").Result()
}

// forge sends each worker forged messages about its waiters, and malformed ones.
func forge(env *environment) (string, error) {
	channels, err := env.channels()
	for range 20 {
		for _, channel := range channels {
			if err == nil {
				err = env.deployment.do("PUBLISH", channel, env.forgedMessage())
			}
		}
	}
	return fmt.Sprintf("forged messages for %d workers", len(channels)), err
}

// epoch returns the correct epoch, as if the forger could read it.
func (env *environment) epoch(name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return env.deployment.monitor.HGet(ctx, keyOf(name, protocol.Meta), protocol.MetaEpoch).Val() // without an epoch the message is malformed
}

// forgedMessage returns a message that is well-formed half of the time. Its position is wrong: only Redis and the process know the
// right one.
func (env *environment) forgedMessage() string {
	now := time.Now().UnixMicro()
	var grants []string
	for range 1 + env.random.IntN(30) {
		token := now + env.random.Int64N(1000)
		if env.random.IntN(3) == 0 {
			token = 0
		}
		grants = append(grants, fmt.Sprintf("%d:%d:%d", 1+env.random.IntN(2000), now-env.random.Int64N(3_000_000), token))
	}
	name := env.randomName()
	text := fmt.Sprintf("%s %s %s", strings.Join(grants, ","), env.epoch(name), keyOf(name, protocol.Owner))
	switch env.random.IntN(6) {
	case 0:
		return text[:env.random.IntN(len(text))]
	case 1:
		return strings.ReplaceAll(text, ":", ":-")
	case 2:
		return strings.ToUpper(text)
	}
	return text
}

// flood sends more messages than a process can check, for a while.
func flood(env *environment) (string, error) {
	channels, err := env.channels()
	sent := 0
	for end := time.Now().Add(500 * time.Millisecond); err == nil && time.Now().Before(end) && len(channels) > 0; sent += 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		pipe := env.deployment.monitor.Pipeline()
		for range 100 {
			pipe.Publish(ctx, channels[env.random.IntN(len(channels))], env.forgedMessage())
		}
		_, err = pipe.Exec(ctx)
		cancel()
	}
	return fmt.Sprintf("%d forged messages", sent), err
}
