// Package modes lets tests of what an ordinary user may not read fail also if root runs them, as in a container.
package modes
