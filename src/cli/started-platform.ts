/** The running platform, as far as the command line needs it. */
import type { startPlatform } from '../platform.ts';

export type StartedPlatform = Awaited<ReturnType<typeof startPlatform>>;
