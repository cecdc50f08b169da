// Package vpa is vertical pod autoscaling.
package vpa
