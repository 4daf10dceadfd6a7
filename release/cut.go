package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A release is made and tried in a clone. Until it is published the repository is as it was.
type release struct {
	version string
	root    folder // the repository
	work    string // the folder that discard removes
	clone   folder
	base    string // the commit of the repository that is in the clone
	w       workspace
	notes   string   // from the changelog
	user    []string // variables with which go is a user's who has the release: see registry.user
}

// branch is the one that is released.
const branch = "main"

func (r *release) tags() []string { return r.w.tags(r.version) }

// prepare makes the release of a version and tries it, in a clone of the repository at root.
func prepare(ctx context.Context, root, version string, today time.Time) (_ *release, err error) {
	r := &release{version: version, root: in(root)}
	if err := r.checkRepository(ctx); err != nil {
		return nil, err
	}
	if r.work, err = os.MkdirTemp("", "fairsem-release-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.discard()
		}
	}()
	sum, err := r.create(ctx, today)
	if err != nil {
		return nil, err
	}
	return r, r.try(ctx, sum)
}

// create makes commit and tags in a clone, and returns the hash of the library.
func (r *release) create(ctx context.Context, today time.Time) (sum string, err error) {
	if err := r.copyRepository(ctx); err != nil {
		return "", err
	}
	if err := r.writeNotes(today); err != nil {
		return "", err
	}
	if err := r.w.require(ctx, r.clone, r.version); err != nil {
		return "", err
	}
	if sum, err = r.writeSums(ctx); err != nil {
		return "", err
	}
	return sum, r.tag(ctx)
}

func (r *release) discard() { _ = os.RemoveAll(r.work) } // a temporary folder: leftovers cost only space

// checkRepository says why nothing can be released from the repository as it is.
func (r *release) checkRepository(ctx context.Context) (err error) {
	if r.w, err = readWorkspace(ctx, r.root); err != nil {
		return err
	}
	tags, err := r.root.run(ctx, "git", "tag", "--list")
	if err != nil {
		return err
	}
	if err := r.w.checkVersion(r.version, strings.Fields(tags)); err != nil {
		return err
	}
	return r.checkBranch(ctx)
}

// checkBranch fails if another branch is checked out, or if files are not as in its last commit.
func (r *release) checkBranch(ctx context.Context) error {
	on, err := r.root.run(ctx, "git", "rev-parse", "--symbolic-full-name", "HEAD")
	if err != nil {
		return err
	}
	if on = strings.TrimPrefix(on, "refs/heads/"); on != branch {
		return fmt.Errorf("releases are made from %s, and this is %s: git switch %[1]s", branch, on)
	}
	changed, err := r.root.run(ctx, "git", "status", "--porcelain")
	if err == nil && changed != "" {
		err = fmt.Errorf("some files are not as in the last commit: commit, stash or remove them\n%s", changed)
	}
	return err
}

// copyRepository clones, with the repository's settings for authors and signatures.
func (r *release) copyRepository(ctx context.Context) error {
	r.clone = in(filepath.Join(r.work, "clone"))
	if err := r.root.cloneTo(ctx, r.clone.dir, "--branch", branch); err != nil {
		return err
	}
	var err error
	if r.base, err = r.clone.run(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	settings, err := r.root.run(ctx, "git", "config", "--null", "--list")
	if err != nil {
		return err
	}
	for setting := range strings.SplitSeq(settings, "\x00") {
		key, value, given := strings.Cut(setting, "\n")
		if !given {
			value = "true" // as git takes a line with a key alone
		}
		if !regexp.MustCompile(`^(user|gpg|commit|tag)\.`).MatchString(key) {
			continue
		}
		if _, err := r.clone.run(ctx, "git", "config", key, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) writeNotes(today time.Time) error {
	text, err := os.ReadFile(r.clone.path(changelog))
	if err != nil {
		return err
	}
	changed, notes, err := datedChangelog(string(text), r.version, today)
	if err != nil {
		return err
	}
	r.notes = notes
	return os.WriteFile(r.clone.path(changelog), []byte(changed), 0o644)
}

// writeSums gives the modules that require the library its hashes at the tag, which a tag for a while gives: no file of those modules is
// part of the library, so they are those of the release.
func (r *release) writeSums(ctx context.Context) (sum string, err error) {
	if _, err := r.clone.run(ctx, "git", "commit", "-q", "--all", "--no-verify", "--no-gpg-sign", "-m", "for the hash of the library"); err != nil {
		return "", err
	}
	if _, err := r.clone.run(ctx, "git", "tag", "--no-sign", r.version); err != nil {
		return "", err
	}
	early, err := newRegistry(ctx, filepath.Join(r.work, "early"), r.clone.dir, r.w.library, r.version, r.w.library)
	if err != nil {
		return "", err
	}
	of := early.sums[r.w.library]
	lines := fmt.Sprintf("%[1]s %[2]s %[3]s\n%[1]s %[2]s/go.mod %[4]s\n", r.w.library, r.version, of.Sum, of.GoModSum)
	for _, dir := range r.w.dependents {
		if err := r.writeSumsOf(dir, lines); err != nil {
			return "", err
		}
	}
	return of.Sum, nil
}

// writeSumsOf gives one module these hashes of the library instead of those of earlier versions.
func (r *release) writeSumsOf(dir, lines string) error {
	file := r.clone.path(dir + "/go.sum")
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(file, []byte(withSums(withoutSums(string(text), r.w.library), lines, r.w.library)), 0o644)
}

// tag makes the commit of the release and its tags.
func (r *release) tag(ctx context.Context) error {
	message := fmt.Sprintf("release: %s\n\n%s has its notes. The other modules require the library at this version: without that, go install\n"+
		"would build the command with an older one.\n", r.version, changelog)
	if _, err := r.clone.run(ctx, "git", "commit", "-q", "--all", "--amend", "--no-verify", "-m", message); err != nil {
		return err
	}
	for i, tag := range r.tags() {
		message := tag
		if i == 0 {
			message += "\n\n" + r.notes
		}
		// The headings of the notes begin like comments.
		if _, err := r.clone.run(ctx, "git", "tag", "--force", "--annotate", "--cleanup=whitespace", "-m", message, tag); err != nil {
			return err
		}
	}
	return nil
}

// try looks up everything that the modules for users import, by their go.mod and go.sum alone, and installs the packages of users from the
// tags.
func (r *release) try(ctx context.Context, sum string) error {
	modules := []string{r.w.library}
	for _, dir := range r.w.modules() {
		modules = append(modules, r.w.library+"/"+dir)
	}
	made, err := newRegistry(ctx, filepath.Join(r.work, "registry"), r.clone.dir, r.w.library, r.version, modules...)
	if err != nil {
		return err
	}
	if made.sums[r.w.library].Sum != sum {
		return errors.New("the hash of the library changed while it was written into go.sum: does the library contain files of another module?")
	}
	if r.user, err = made.user(ctx, filepath.Join(r.work, "cache"), r.w.library); err != nil {
		return err
	}
	for _, dir := range r.w.modules() {
		if _, err := in(r.clone.path(dir), r.user...).run(ctx, "go", "list", "-mod=readonly", "-deps", "./..."); err != nil {
			return fmt.Errorf("find what %s imports without the workspace; make tidy may help: %w", dir, err)
		}
	}
	return r.install(ctx)
}

// publish brings commit and tags into the repository, or nothing.
func (r *release) publish(ctx context.Context) error {
	refs := []string{"refs/heads/" + branch}
	create := "start\n"
	for _, tag := range r.tags() {
		ref := "refs/tags/" + tag
		object, err := r.clone.run(ctx, "git", "rev-parse", ref)
		if err != nil {
			return err
		}
		refs = append(refs, ref)
		create += "create " + ref + " " + object + "\n"
	}
	if _, err := r.root.run(ctx, "git", append([]string{"fetch", "-q", "--no-tags", r.clone.dir}, refs...)...); err != nil {
		return err
	}
	commit, err := r.clone.run(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	// Trying the release took minutes, in which the repository may have changed.
	if err := r.checkUnmoved(ctx); err != nil {
		return err
	}
	// From here on an interrupt waits: it could leave a half.
	root, ctx := r.root.apart(), context.WithoutCancel(ctx)
	_, err = root.run(ctx, "git", "merge", "-q", "--ff-only", commit)
	if err == nil {
		_, err = root.feed(ctx, create+"commit\n", "git", "update-ref", "--stdin")
	}
	if err != nil {
		_, undone := root.run(ctx, "git", "reset", "-q", "--keep", r.base)
		err = errors.Join(err, undone)
	}
	return err
}

// checkUnmoved fails if the repository is not at the commit that is in the clone, with all files as in it.
func (r *release) checkUnmoved(ctx context.Context) error {
	if err := r.checkBranch(ctx); err != nil {
		return err
	}
	now, err := r.root.run(ctx, "git", "rev-parse", "HEAD")
	if err == nil && now != r.base {
		err = fmt.Errorf("%s was at %s when this release began, and is now at %s: make the release again", branch, r.base, now)
	}
	return err
}
