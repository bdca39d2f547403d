package main

// isLinux: a command dies with us.
const isLinux = true
