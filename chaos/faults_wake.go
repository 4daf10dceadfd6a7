package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// wakeFaults are what happens to the messages that tell who is next.
func wakeFaults() []fault {
	return []fault{
		{name: "all wake messages lost", kind: single, smoke: true, deaf: true, strike: nothing},
		{name: "all wake messages lost, and kill -9", kind: single, deaf: true, strike: killWorker},
		{name: "no right to the channels for a while", kind: single, strike: takeChannels},
		{name: "forged wake messages", kind: single, spares: true, smoke: true, strike: forge},
		{name: "a flood of wake messages", kind: single, strike: flood},
	}
}

// takeChannels ends the subscriptions and lets nobody subscribe again.
func takeChannels(a *arena) (string, error) {
	if err := a.rig.ask("ACL", "SETUSER", workerUser, "resetchannels"); err != nil {
		return "", err
	}
	d := a.last(200*time.Millisecond, 2*time.Second)
	return fmt.Sprintf("no channels for %v", d), a.rig.ask("ACL", "SETUSER", workerUser, "allchannels")
}

// channels are those on which the workers listen.
func (a *arena) channels() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return a.rig.monitor.PubSubChannels(ctx, space.WakePrefix()+"*").Result()
}

// forge sends each worker lies about its waiters, and what is no message at all.
func forge(a *arena) (string, error) {
	channels, err := a.channels()
	for range 20 {
		for _, channel := range channels {
			if err == nil {
				err = a.rig.ask("PUBLISH", channel, a.lie())
			}
		}
	}
	return fmt.Sprintf("lies for %d workers", len(channels)), err
}

// epoch is the right one, as if the liar could read.
func (a *arena) epoch(name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return a.rig.monitor.HGet(ctx, keyOf(name, protocol.Meta), protocol.MetaEpoch).Val() // without one the message is no message
}

// lie is well-formed half of the time. The place it names is wrong: the right one only Redis and the
// process know.
func (a *arena) lie() string {
	now := time.Now().UnixMicro()
	var grants []string
	for range 1 + a.random.IntN(30) {
		token := now + a.random.Int64N(1000)
		if a.random.IntN(3) == 0 {
			token = 0
		}
		grants = append(grants, fmt.Sprintf("%d:%d:%d", 1+a.random.IntN(2000), now-a.random.Int64N(3_000_000), token))
	}
	name := a.someName()
	text := fmt.Sprintf("%s %s %s", strings.Join(grants, ","), a.epoch(name), keyOf(name, protocol.Owner))
	switch a.random.IntN(6) {
	case 0:
		return text[:a.random.IntN(len(text))]
	case 1:
		return strings.ReplaceAll(text, ":", ":-")
	case 2:
		return strings.ToUpper(text)
	}
	return text
}

// flood sends more than anybody can look into, for a while.
func flood(a *arena) (string, error) {
	channels, err := a.channels()
	sent := 0
	for end := time.Now().Add(500 * time.Millisecond); err == nil && time.Now().Before(end) && len(channels) > 0; sent += 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		pipe := a.rig.monitor.Pipeline()
		for range 100 {
			pipe.Publish(ctx, channels[a.random.IntN(len(channels))], a.lie())
		}
		_, err = pipe.Exec(ctx)
		cancel()
	}
	return fmt.Sprintf("%d lies", sent), err
}
