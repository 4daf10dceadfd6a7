package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Settings of the environment, such as safe.directory in a container, were replaced.
func TestSettingForGitLeavesThoseOfTheEnvironment(t *testing.T) {
	for key, value := range map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "/src"} {
		t.Setenv(key, value)
	}
	at := in(t.TempDir(), gitSetting("url.file:///clone.insteadOf", "https://example.com")...)
	assert.Equal(t, "/src", does(t, at, "git", "config", "safe.directory"))
	assert.Equal(t, "https://example.com", does(t, at, "git", "config", "url.file:///clone.insteadOf"))
}
