package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// checkVersion says why a version cannot be released: its form, the path of the library, or the tags that exist.
func (w *workspace) checkVersion(version string, tags []string) error {
	if semver.Canonical(version) != version {
		return usageError(fmt.Sprintf("version %q is not of the form v1.2.3 or v1.2.3-rc.1", version))
	}
	if err := module.Check(w.library, version); err != nil {
		return usageError(fmt.Sprintf("version %s does not fit the module path %s, which ends in the major version from v2 on: %v", version, w.library, err))
	}
	newest := newestOf(tags)
	for _, tag := range w.tags(version) {
		if slices.Contains(tags, tag) {
			return fmt.Errorf("the tag %s exists: release a version after %s", tag, newest)
		}
	}
	if semver.Compare(version, newest) <= 0 {
		return fmt.Errorf("version %s is not after %s, the newest tag: release a version after it", version, newest)
	}
	return nil
}

// newestOf returns the highest version among tags of the library, "" if there is none.
func newestOf(tags []string) string {
	versions := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !semver.IsValid(tag) })
	if len(versions) == 0 {
		return ""
	}
	return slices.MaxFunc(versions, semver.Compare)
}

// nextMinor returns the minor version after the newest tag: v0.1.0 if there is none, or if that is v0.1.0-rc.1.
func nextMinor(ctx context.Context, repository folder) (string, error) {
	tags, err := repository.run(ctx, "git", "tag", "--list")
	if err != nil {
		return "", err
	}
	newest := newestOf(strings.Fields(tags))
	if newest == "" {
		return "v0.1.0", nil
	}
	if next := semver.MajorMinor(newest) + ".0"; semver.Compare(newest, next) < 0 {
		return next, nil
	}
	var major, minor int
	if _, err := fmt.Sscanf(semver.MajorMinor(newest), "v%d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("tag %s: %w", newest, err)
	}
	return fmt.Sprintf("v%d.%d.0", major, minor+1), nil
}
