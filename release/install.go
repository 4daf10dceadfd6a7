package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Files that install leaves in the work folder of a release: the program of the README, and the command.
const (
	program = "program/program"
	binary  = "bin/fairsem"
)

// install follows the README in empty folders: go install, go get, and a program.
func (r *release) install(ctx context.Context) error {
	at := in(filepath.Join(r.work, filepath.Dir(program)), r.userAlone()...)
	if err := os.Mkdir(at.dir, 0o755); err != nil {
		return err
	}
	if _, err := at.run(ctx, "go", "install", r.w.library+"/"+command+"@"+r.version); err != nil {
		return fmt.Errorf("in an empty folder: %w", err)
	}
	said, err := at.run(ctx, filepath.Join(r.work, binary), "version")
	if err != nil {
		return err
	}
	if want := "fairsem " + r.version + " "; !strings.HasPrefix(said, want) {
		return fmt.Errorf("the installed command says that it is %q, not %q", said, want)
	}
	return r.buildProgram(ctx, at)
}

// userAlone returns variables for a user in an empty folder. The modules of go.sum have been looked up already; here only a registry of
// hashes could.
func (r *release) userAlone() []string {
	return append(slices.Clone(r.user), "GOSUMDB=off", "GOBIN="+filepath.Join(r.work, "bin"))
}

func (r *release) buildProgram(ctx context.Context, at folder) error {
	readme, err := os.ReadFile(r.clone.path("README.md"))
	if err != nil {
		return err
	}
	source, err := programOf(string(readme), r.w.library)
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "init", "example.com/program"}, {"get", r.w.library + "@" + r.version}} {
		if _, err := at.run(ctx, "go", args...); err != nil {
			return fmt.Errorf("in an empty folder: %w", err)
		}
	}
	if err := os.WriteFile(at.path("main.go"), []byte(source), 0o644); err != nil {
		return err
	}
	_, err = at.run(ctx, "go", "build", "-mod=mod", ".")
	return err
}

// buildPackages gets and builds the packages that users import beside the library, of modules in these folders, where install has built its
// program. For all of them it takes longer than all that prepare does.
func (r *release) buildPackages(ctx context.Context, dirs ...string) error {
	at := in(filepath.Join(r.work, filepath.Dir(program)), r.userAlone()...)
	for _, dir := range dirs {
		if dir == command {
			continue
		}
		pkg := r.w.library + "/" + dir
		if _, err := at.run(ctx, "go", "get", pkg+"@"+r.version); err != nil {
			return fmt.Errorf("in an empty folder: %w", err)
		}
		if _, err := at.run(ctx, "go", "build", "-mod=mod", pkg); err != nil {
			return err
		}
	}
	return nil
}

// buildCommand compiles the command for systems: that it does not for one must not be found when the tags are out.
func (r *release) buildCommand(ctx context.Context, targets ...string) error {
	for _, target := range targets {
		system, arch, _ := strings.Cut(target, "/")
		at := in(r.clone.path(command), append(slices.Clone(r.user), "GOOS="+system, "GOARCH="+arch)...)
		if _, err := at.run(ctx, "go", "build", "-mod=readonly", "-o", os.DevNull, "."); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return nil
}

// programOf makes a program of the function run in the README. Its argument is the address of a server.
func programOf(readme, library string) (string, error) {
	block := regexp.MustCompile("(?s)```go\n(func run\\(.*?)```").FindStringSubmatch(readme)
	if block == nil {
		return "", fmt.Errorf("README.md has no block of Go that begins with func run")
	}
	return fmt.Sprintf(`package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	%q
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	if err := run(context.Background(), rdb); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func pay(context.Context) error {
	fmt.Println("paid")
	return nil
}

%s`, library, block[1]), nil
}
