#!/usr/bin/env node
/** `penstock`: the command line under the right Node version. */
import { runTask } from '../scripts/run.mjs';

await runTask('penstock', process.argv.slice(2));
