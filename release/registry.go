package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// A registry is a folder of released modules that go reads with GOPROXY=file://..., as a module proxy would have made them from the tags
// of a clone. It is go itself that makes it, so users get the same names of tags, files of a module and hashes.
type registry struct {
	dir  string            // GOPROXY, as a folder
	sums map[string]hashes // of each module path
}

// hashes are the hashes that go.sum has of a version of a module: of all its files, and of its go.mod.
type hashes struct{ Sum, GoModSum string }

// newRegistry makes one in a folder from the tags of a clone. The library's module path is that of the repository.
func newRegistry(ctx context.Context, work, clone, library, version string, modules ...string) (*registry, error) {
	r := &registry{filepath.Join(work, "cache", "download"), make(map[string]hashes)}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	at := in(work, "GOWORK=off", "GOMODCACHE="+work, "GOPROXY=direct", "GONOPROXY=", "GOPRIVATE=", "GONOSUMDB="+library, "GOVCS=*:git",
		"GOFLAGS=-modcacherw", "GOTOOLCHAIN=local")
	at.env = append(at.env, gitSetting("url."+fileURL(clone)+".insteadOf", "https://"+library)...)
	for _, module := range modules {
		var got hashes
		if err := at.goJSON(ctx, &got, "mod", "download", "-json", module+"@"+version); err != nil {
			return nil, fmt.Errorf("make a module of its tag: %w", err)
		}
		r.sums[module] = got
	}
	return r, nil
}

// gitSetting returns variables with which git has one more setting than those that the environment gives it already.
func gitSetting(key, value string) []string {
	count, _ := strconv.Atoi(os.Getenv("GIT_CONFIG_COUNT")) // git refuses any text that is no number
	return []string{
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", count+1), fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", count, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", count, value),
	}
}

// user returns variables with which go in a folder gets the released modules from the registry, and others from this machine's module
// cache, or as always if they are not there. They keep a module cache of their own: the modules made here are not yet a release.
//
// GONOPROXY is empty, also where the file of go env -w sets it: if it has any value, go first looks without GOPROXY for the module of a
// package. It then finds the library, which is in the cache already, and not the module below it that has the package.
func (r *registry) user(ctx context.Context, cache, library string) ([]string, error) {
	var env struct{ GOMODCACHE, GOPROXY string }
	if err := in(".").goJSON(ctx, &env, "env", "-json", "GOMODCACHE", "GOPROXY"); err != nil {
		return nil, err
	}
	proxies := fileURL(r.dir) + "," + fileURL(filepath.Join(env.GOMODCACHE, "cache", "download")) + "," + env.GOPROXY
	return []string{
		"GOENV=off", "GOWORK=off", "GOMODCACHE=" + cache, "GOPROXY=" + proxies, "GONOPROXY=", "GOPRIVATE=", "GONOSUMDB=" + library,
		"GOFLAGS=-modcacherw -trimpath", "GOTOOLCHAIN=local", "CGO_ENABLED=0",
	}, nil
}

func fileURL(dir string) string { return "file://" + filepath.ToSlash(dir) }
