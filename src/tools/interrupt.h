#pragma once

namespace gspmd::tools {

// From here on SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGXCPU, where they are not ignored, remove the
// files that are half written before they end the process as ever; a file that would grow over the
// limit of sizes (SIGXFSZ) is an error of its write. Called before any other thread is started.
void end_cleanly_when_interrupted();

}  // namespace gspmd::tools
