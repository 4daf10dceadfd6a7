package text

import "regexp"

// WithoutPasswords hides the passwords of URLs in a text that repeats a part of the command line. The examples in errors stay.
func WithoutPasswords(s string) string {
	s = userInfo.ReplaceAllStringFunc(s, func(found string) string {
		if found == "://user:password@" || found == "://:password@" {
			return found
		}
		return "://***@"
	})
	return parameter.ReplaceAllString(s, "password=***")
}

// userInfo matches the user and the password of a URL, and parameter another password there. They may contain anything but white space.
var (
	userInfo  = regexp.MustCompile(`://\S*@`)
	parameter = regexp.MustCompile(`password=[^&\s"]+`)
)
