package dial

import (
	"errors"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"
)

var errURL = errors.New("not the URL of a server, such as " + forms + "; write special characters of a password as %XX, " +
	`and check the number of the database`)

// parsed has a function of go-redis read the URL, and says which part it refuses. The name of a parameter is shown if go-redis knows it:
// any other text may be a part of a password.
func parsed[T any](u *url.URL, parse func(rawURL string) (*T, error)) (*T, error) {
	with := func(q url.Values) (*T, error) {
		some := *u
		some.RawQuery = q.Encode()
		return parse(some.String())
	}
	opts, err := parse(u.String())
	if err == nil {
		return opts, nil
	}
	if _, err := with(nil); err != nil {
		return nil, errURL
	}
	q := u.Query()
	for _, name := range slices.Sorted(maps.Keys(q)) {
		takes := func(values ...string) bool {
			_, err := with(url.Values{name: values})
			return err == nil
		}
		if takes(q[name]...) {
			continue
		}
		if takes("1") || takes("host:1") { // 1 is a number, a duration, a text and true
			return nil, errParameter(name)
		}
		return nil, errors.New(`a URL with a parameter after "?" that URLs of its form do not have; the parameters are those of go-redis, ` +
			"such as read_timeout=5s, or with rediss:// skip_verify=true; write a ? in a password as %3F")
	}
	return nil, errURL
}

func errParameter(name string) error {
	return errors.New("a URL in which the parameter " + name + " has a value that is not possible")
}

var errNoPassword = errors.New("a URL with a user but no password, so that neither would be sent: write redis://:password@host for a " +
	"password alone; a user that needs none accepts any")

// check refuses what go-redis would leave out without a word, or could not work with.
func check(u *url.URL) error {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New(`a URL whose part after "?" cannot be read: separate parameters by "&", and write special characters as %XX`)
	}
	if password, _ := u.User.Password(); u.User.Username() != "" && password == "" {
		return errNoPassword
	}
	for _, value := range q["dial_timeout"] { // go-redis takes any that is not above 0 for none, which then is over at once
		seconds, err := strconv.Atoi(value)
		if took, is := time.ParseDuration(value); err == nil && seconds <= 0 || is == nil && took <= 0 {
			return errParameter("dial_timeout")
		}
	}
	return checkSizes(q)
}

// checkSizes is for parameters with which go-redis panics when it makes the pool. -1 is none, 0 the default. It leaves it to go-redis to
// refuse values that are no numbers.
func checkSizes(q url.Values) error {
	for _, name := range []string{"pool_size", "min_idle_conns", "max_idle_conns", "max_active_conns", "max_concurrent_dials", "pipeline_pool_size"} {
		for _, value := range q[name] {
			size, err := strconv.Atoi(value)
			if err == nil && (size < -1 || size > math.MaxUint16 || size < 0 && name == "pool_size") {
				return errParameter(name)
			}
		}
	}
	return nil
}
