/** Configuration of functions (specification functions.md section 3). */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless } from '../../kernel/config/config-definition.ts';

type Bounds = readonly [minimum: number, maximum: number];
const whole = (value: number, [minimum, maximum]: Bounds, description: string) =>
  Type.Integer({ default: value, minimum, maximum, description });
const tuned = (value: number, [minimum, maximum]: Bounds, description: string) =>
  Type.Integer({ ...harmless, default: value, minimum, maximum, description });

const KILOBYTE = 1_024;
const MEGABYTE = 1_024 * KILOBYTE;

const limits = Type.Object({
  memoryMb: whole(128, [8, 2_048], 'Megabytes of heap that one run may have.'),
  cpuMs: whole(5_000, [10, 600_000], 'Milliseconds of processor time that one run may use.'),
  maxTimeoutMs: whole(
    180_000,
    [100, 3_600_000],
    'Milliseconds that the longest run may take. Functions with a longer timeout end then.',
  ),
  maxConcurrencyPerFunction: whole(50, [1, 10_000], 'Runs of one function at once on one node.'),
  maxConcurrency: whole(200, [1, 10_000], 'Runs of all functions at once on one node.'),
  maxResultBytes: whole(6 * MEGABYTE, [KILOBYTE, 32 * MEGABYTE], 'Bytes of one result.'),
  maxLogBytes: tuned(
    64 * KILOBYTE,
    [0, MEGABYTE],
    'Bytes of the log of one run, of at most 5,000 lines. More is cut off.',
  ),
  maxCodeBytes: tuned(
    512 * KILOBYTE,
    [KILOBYTE, 4 * MEGABYTE],
    'Bytes of the text of one function.',
  ),
  maxPackageBytes: tuned(
    4 * MEGABYTE,
    [KILOBYTE, 32 * MEGABYTE],
    'Bytes of the packages that are bundled with one function.',
  ),
  processes: whole(
    0,
    [0, 32],
    'Processes in which functions run on one node. 0: one for every two processors. One more begins where each has 80 runs.',
  ),
  processMb: whole(1_024, [128, 16_384], 'Megabytes that one such process may have.'),
});

const retention = Type.Object({
  executionsDays: tuned(14, [1, 3_650], 'Days for which records of runs are kept.'),
  failuresDays: tuned(60, [1, 3_650], 'Days for which records of failed runs are kept.'),
  maxPerFunction: tuned(10_000, [1, 10_000_000], 'Records of runs that one function keeps.'),
  successSample: Type.Number({
    ...harmless,
    default: 1,
    minimum: 0,
    maximum: 1,
    description:
      'Part of the successful runs that are recorded: 1 is all, 0.1 every tenth. Failed ones always are.',
  }),
});

const egress = Type.Object({
  allow: Type.Array(Type.String({ maxLength: 253, pattern: '^(\\*\\.)?[A-Za-z0-9.-]+$' }), {
    default: [],
    maxItems: 200,
    description:
      'Hosts that functions may call: names, or *.name for all below it. Empty: all that are public.',
  }),
  denyPrivate: Type.Boolean({
    default: true,
    description:
      'Functions call neither private nor loopback addresses, and nothing without TLS. The addresses of cloud metadata stay closed even when this is off.',
  }),
  timeoutMs: tuned(15_000, [100, 120_000], 'Milliseconds for one call to the outside.'),
  maxBytes: tuned(6 * MEGABYTE, [KILOBYTE, 32 * MEGABYTE], 'Bytes of one answer from the outside.'),
});

const cron = Type.Object({
  catchUp: Type.Boolean({
    ...harmless,
    default: false,
    description:
      'What schedules do that say nothing in `missed`: true makes up once for times that passed while nothing ran.',
  }),
  jitterMs: tuned(
    0,
    [0, 600_000],
    'Milliseconds by which runs of schedules are put off at most, each by a random part of it.',
  ),
});

const events = Type.Object({
  attempts: tuned(
    5,
    [1, 100],
    'Tries of a run that nobody waits for, unless `inputs.attempts` says more or less.',
  ),
  backoffMs: tuned(
    1_000,
    [0, 86_400_000],
    'Milliseconds before the second try; it doubles with each. `inputs.backoffMs` goes before it.',
  ),
});

export const functionsConfig = defineConfig({
  schema: Type.Object({ limits, retention, egress, cron, events }),
});

export type FunctionsConfig = Static<typeof functionsConfig.schema>;
