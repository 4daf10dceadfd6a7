package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	facts "github.com/fairsem/fairsem/internal/machine"
	"github.com/fairsem/fairsem/internal/redistest"
)

// machine describes the machine and the Redis version of a result.
type machine struct {
	facts.Facts
	Redis string `json:"redis"`
}

func newMachine(ctx context.Context) machine {
	return machine{
		Facts: facts.New(ctx, "github.com/redis/go-redis/v9", "github.com/anishathalye/porcupine"),
		Redis: redisVersion(ctx),
	}
}

func redisVersion(ctx context.Context) string {
	binary, err := redistest.Binary()
	if err != nil {
		return "unknown"
	}
	return output(ctx, binary, "--version")
}

// output returns the first three words of a command's output.
func output(ctx context.Context, name string, args ...string) string {
	text, err := exec.CommandContext(ctx, name, args...).Output()
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 {
		return "unknown"
	}
	return strings.Join(words[:min(len(words), 3)], " ")
}

func (m machine) String() string {
	return fmt.Sprintf("%s: %s, %d cores, kernel %s; %s; %s; go-redis %s, porcupine %s; fairsem %s", m.Date, m.CPU, m.Cores, m.Kernel,
		m.Go, m.Redis, m.Versions["github.com/redis/go-redis/v9"], m.Versions["github.com/anishathalye/porcupine"], m.Fairsem)
}
