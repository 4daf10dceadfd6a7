package dial

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// secret is the password, and is never to be seen.
const secret = "geheim"

func TestAURLNamesAServer(t *testing.T) {
	for rawURL, address := range map[string]string{
		"redis://localhost":                                      "localhost:6379",
		"REDIS://localhost":                                      "localhost:6379",
		"redis://":                                               "localhost:6379",
		"redis://:geheim@localhost:7000/3":                       "localhost:7000",
		"redis://user:geheim@localhost/":                         "localhost:6379",
		"redis://user:%67eheim@[::1]:7000?db=3":                  "[::1]:7000",
		"rediss://user:geheim@redis.example.com":                 "redis.example.com:6379",
		"rediss://redis.example.com?skip_verify=true":            "redis.example.com:6379",
		"redis://localhost?pool_size=5&pipeline_pool_size=-1":    "localhost:6379",
		"unix:///run/redis.sock":                                 "/run/redis.sock",
		"unix://user:geheim@/run/redis.sock?db=3":                "/run/redis.sock",
		"cluster://user:geheim@a":                                "cluster a:6379",
		"cluster://a:1/?addr=b:2&addr=c:3":                       "cluster a:1, b:2, c:3",
		"clusters://a:1?addr=b:2&read_timeout=5s":                "cluster a:1, b:2",
		"sentinel://user:geheim@a?master_name=m":                 "m of sentinel a:26379",
		"sentinel://a:1/3?master_name=m&addr=b:2":                "m of sentinel a:1, b:2",
		"sentinels://a:1?master_name=m&sentinel_password=geheim": "m of sentinel a:1",
		"sentinels://a:1?master_name=m&db=3":                     "m of sentinel a:1",
	} {
		s, err := Parse(rawURL)
		if assert.NoError(t, err, rawURL) {
			assert.Equal(t, address, s.String(), rawURL)
			assert.NotContains(t, fmt.Sprint(s), secret)
			assert.NoError(t, s.Client().Close())
		}
	}
}

// Whatever part of a URL a special character moves a password to, nothing of the URL is repeated.
func TestAURLThatCannotWorkIsRefusedAndNotRepeated(t *testing.T) {
	for _, rawURL := range []string{
		"",
		"geheim",
		"localhost:geheim",
		"127.0.0.1:6379",
		"//geheim@localhost",
		"http://:geheim@localhost",
		"redis:geheim@localhost",
		"redis://:ge#heim@localhost",
		"redis://:geheim#@localhost",
		"redis://:geheim%@localhost",
		"redis://:geheim@localhost/geheim",
		"redis://:geheim@localhost/1/2",
		"redis://:1/geheim@localhost",
		"redis://:1?geheim@localhost",
		"redis://localhost:geheim",
		"redis://localhost?geheim=1",
		"redis://localhost?db=geheim",
		"redis://localhost?read_timeout=geheim",
		"redis://geheim\n@localhost",
		"redis://localhost?pool_size=99999999999",
		"redis://localhost?pool_size=-1",
		"redis://localhost?min_idle_conns=-7",
		"redis://localhost?pipeline_pool_size=99999999999",
		"unix://",
		"unix:geheim",
		"unix://geheim/redis.sock",
		"unix:///run/redis.sock?geheim=1",
		"cluster://:geheim@a/1",
		"cluster://:geheim@a/geheim",
		"cluster://a?addr=geheim",
		"cluster://a?addr=:geheim",
		"cluster://a?addr=geheim@b:1",
		"cluster://u:1?addr=geheim@b:1",
		"cluster://a?geheim=1",
		"cluster://a?pool_size=99999999999",
		"cluster://a?max_concurrent_dials=-2",
		"cluster:geheim@a",
		"clusters://a:geheim",
		"sentinel://:geheim@a",
		"sentinel://:geheim@a?master_name=",
		"sentinel://:geheim@a/geheim?master_name=m",
		"sentinel://a?master_name=m&addr=geheim",
		"sentinel://a?master_name=m&addr=geheim@b:1",
		"sentinel://a?master_name=m&geheim=1",
		"sentinel://a?master_name=m&pool_size=-2",
		"sentinel://a?master_name=m&max_active_conns=65536",
		"sentinel://:geheim@a?master_name=m&route_by_latency=true",
		"sentinel://:geheim@a?master_name=m&route_randomly=true",
		"sentinel://:geheim@a?master_name=m&replica_only=true",
		"sentinels://:geheim%zz@a?master_name=m",
		"rediss://:geheim@a?tls_cert=/geheim&tls_key=/geheim",
		"rediss://:geheim@a?tls_cert=/geheim",
		"clusters://:geheim@a?tls_key=/geheim",
		"redis://:geheim@a?tls_cert=/geheim&tls_key=/geheim",
		"rediss://:geheim@a?tls_ca=/geheim",
		"redis://:geheim@a?tls_ca=/geheim",
		"redis://geheim@a",
		"unix://geheim@/run/redis.sock",
		"sentinel://:geheim@a?master_name=m&sentinel_username=geheim",
		"sentinel://a?master_name=m&username=geheim&password=geheim",
		"sentinel://:geheim@a?master_name=m&amp;db=3",
		"redis://:geheim@a?db=3;read_timeout=5s",
		"redis://:geheim@a?db=3%",
		"redis://:geheim@a?dial_timeout=0",
		"redis://:geheim@a?dial_timeout=-1s",
	} {
		_, err := Parse(rawURL)
		if assert.Error(t, err, rawURL) {
			assert.NotContains(t, err.Error(), "eheim", rawURL)
			assert.NotContains(t, err.Error(), "\n")
		}
	}
}

func TestARefusalExplainsWhatToWriteInstead(t *testing.T) {
	for rawURL, want := range map[string]string{
		"localhost":               "write special characters of a password as %XX",
		"cluster://a/1":           "leave it out, a cluster has one database",
		"sentinel://a":            "add ?master_name=NAME",
		"sentinel://a?addr=b:1":   "add ?master_name=NAME",
		"redis://a?tls_cert=f":    "without TLS: write rediss://",
		"rediss://a?tls_cert=/no": "do not name files, in PEM, with a certificate and its key",
		"redis://a?tls_ca=f":      "without TLS: write rediss://",
		"rediss://a?tls_ca=/no":   "tls_ca does not name a file, in PEM, with the certificate of an authority",
		"redis://user@a":          "a user but no password",
		"redis://user:@a":         "a user but no password",
		"sentinel://a?master_name=m&sentinel_username=x":       "a user but no password",
		"sentinel://a?master_name=m&password=x":                "write those of the servers before the host",
		"redis://a?db=3;read_timeout=5s":                       `separate parameters by "&"`,
		"redis://a?dial_timeout=0":                             "the parameter dial_timeout has a value that is not possible",
		"redis://a?dial_timeout=1":                             "",
		"redis://a?read_timeout=":                              "",
		"redis://a/x":                                          "check the number of the database",
		"redis://a/-7":                                         "check the number of the database",
		"redis://a?db=-7":                                      "the parameter db has a value that is not possible",
		"unix:///run/redis.sock?db=-1":                         "the parameter db has a value that is not possible",
		"sentinel://a/-1?master_name=m":                        "check the number of the database",
		"redis://a?db=x":                                       "the parameter db has a value that is not possible",
		"redis://a?pool_size=-2":                               "the parameter pool_size has a value",
		"redis://a?max_retries=1&dial_timeout=soon":            "the parameter dial_timeout has a value",
		"cluster://a?addr=pw@b:1&max_redirects=2":              "the parameter addr has a value",
		"sentinel://a?master_name=m&min_idle_conns=many":       "the parameter min_idle_conns has a value",
		"redis://a?read_timeout=5s&readTimeout=5s":             "that URLs of its form do not have",
		"sentinel://a?master_name=m&retries=3&max_redirects=3": "that URLs of its form do not have",
	} {
		_, err := Parse(rawURL)
		if want == "" {
			assert.NoError(t, err, rawURL)
			continue
		}
		assert.ErrorContains(t, err, want, rawURL)
	}
	for form := range strings.SplitSeq(strings.ReplaceAll(forms, " or ", ", "), ", ") {
		_, err := Parse(form)
		assert.NoError(t, err, "the help gives this as an example: %s", form)
	}
}

// User and password of a URL are always those of the servers. Sentinels have their own.
func TestUserAndPasswordAreThoseOfTheServers(t *testing.T) {
	u, err := url.Parse("rediss://user:geheim@a?master_name=m&sentinel_username=watcher&sentinel_password=andere")
	require.NoError(t, err)
	watched, err := sentinelOptions(u)
	require.NoError(t, err)
	assert.Equal(t, []string{"user", secret}, []string{watched.Username, watched.Password})
	assert.Equal(t, []string{"watcher", "andere"}, []string{watched.SentinelUsername, watched.SentinelPassword})
	assert.NotNil(t, watched.TLSConfig)

	s, err := Parse("clusters://user:geheim@a")
	require.NoError(t, err)
	cluster := s.Client().(*redis.ClusterClient).Options()
	assert.Equal(t, []string{"user", secret}, []string{cluster.Username, cluster.Password})
	assert.NotNil(t, cluster.TLSConfig)

	s, err = Parse("unix://user:geheim@/run/redis.sock")
	require.NoError(t, err)
	opts := s.Client().(*redis.Client).Options()
	assert.Equal(t, []string{"user", secret, "unix"}, []string{opts.Username, opts.Password, opts.Network})
}

// Changes by a client to its options do not show in the next one.
func TestClientsShareNothing(t *testing.T) {
	s, err := Parse("cluster://a:1?addr=b:2")
	require.NoError(t, err)
	first := s.Client().(*redis.ClusterClient)
	defer func() { _ = first.Close() }()
	first.Options().Addrs[0] = "changed"
	second := s.Client().(*redis.ClusterClient)
	defer func() { _ = second.Close() }()
	assert.Equal(t, []string{"a:1", "b:2"}, second.Options().Addrs)
	assert.Equal(t, "cluster a:1, b:2", s.String())
}
