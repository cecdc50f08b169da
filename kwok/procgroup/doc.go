// Package procgroup starts commands as process groups, so that their children end with them. Systems without
// process groups, such as Windows, end only the command.
package procgroup
