/** A plan as people read it. */

import { createInterface } from 'node:readline/promises';
import { shortened } from '../../kernel/text.ts';
import { visible } from '../visible.ts';

/* Where a command prints and asks, and colours where somebody can see them. */

export interface Terminal {
  readonly environment: NodeJS.ProcessEnv;
  /** Somebody looks at what is printed. */
  readonly isSeen: boolean;
  print(text: string): void;
  /** Absent where nobody could answer. */
  readonly ask?: (question: string) => Promise<string>;
}

export const processTerminal: Terminal = {
  environment: process.env,
  isSeen: process.stdout.isTTY,
  print: (text) => void process.stdout.write(`${text}\n`),
  ...(process.stdin.isTTY && { ask: askThere }),
};

async function askThere(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return await lines.question(question);
  } finally {
    lines.close();
  }
}

type Colour = 'green' | 'yellow' | 'red' | 'grey';
export type Paint = (colour: Colour, text: string) => string;

const codes: Readonly<Record<Colour, number>> = { green: 32, yellow: 33, red: 31, grey: 90 };

/** `requested` decides; else whoever looks gets colours, unless NO_COLOR is set. */
export function paintFor({ isSeen, environment }: Terminal, requested: boolean | undefined): Paint {
  const on = requested ?? (isSeen && !environment.NO_COLOR);
  return on
    ? (colour, text) => `\u001b[${codes[colour]}m${text}\u001b[0m`
    : (_colour, text) => text;
}

interface Difference {
  readonly path: string;
  readonly from: unknown;
  readonly to: unknown;
}

interface Entry {
  readonly action: 'create' | 'update' | 'delete' | 'noop';
  readonly module: string;
  readonly type: string;
  readonly key: string;
  readonly diff: readonly Difference[];
  readonly renames?: readonly { readonly from: string; readonly to: string }[];
  readonly hides?: readonly { readonly field: string; readonly records: number }[];
}

/** What `POST /state/plan` answers. */
export interface Plan {
  readonly plan: readonly Entry[];
  readonly checksum: string;
  readonly warnings: readonly string[];
  /** Why an import of it would be refused. */
  readonly obstacles?: readonly { readonly path: string; readonly message: string }[];
}

const signs = { create: '+', update: '~', delete: '-', noop: ' ' } as const;
const colours: Readonly<Record<Entry['action'], Colour>> = {
  create: 'green',
  update: 'yellow',
  delete: 'red',
  noop: 'grey',
};
/** Characters of one value; the rest is in the files. */
const MAX_VALUE = 120;

export const changesOf = ({ plan }: Plan): readonly Entry[] =>
  plan.filter(({ action }) => action !== 'noop');

/** `takes`: things that go, and fields that are no longer shown. */
export function summaryOf(plan: Plan): {
  readonly creates: number;
  readonly updates: number;
  readonly takes: number;
} {
  const count = (requested: Entry['action']): number =>
    plan.plan.filter(({ action }) => action === requested).length;
  const hidden = plan.plan.flatMap(({ hides = [] }) => hides).length;
  return { creates: count('create'), updates: count('update'), takes: count('delete') + hidden };
}

export const things = (count: number, one = 'thing'): string =>
  `${count} ${one}${count === 1 ? '' : 's'}`;

export function planLines(plan: Plan, paint: Paint): readonly string[] {
  const { creates, updates, takes } = summaryOf(plan);
  const warnings = plan.warnings.map((warning) => paint('yellow', visible(`! ${warning}`)));
  const changes = changesOf(plan).flatMap((entry) => entryLines(entry, paint));
  const obstacles = obstacleLines(plan, paint);
  if (changes.length + obstacles.length === 0)
    return [...warnings, 'Nothing to do: the platform is as the files say.'];
  return [
    ...warnings,
    ...changes,
    '',
    `${creates} to create, ${updates} to change, ${takes} to take away.`,
    ...obstacles,
  ];
}

function entryLines(
  { action, module, type, key, diff, renames = [], hides = [] }: Entry,
  paint: Paint,
): readonly string[] {
  const name = type === 'config' ? `${module} configuration` : `${module} ${type} ${visible(key)}`;
  const head = paint(colours[action], `${signs[action]} ${name}`);
  if (action !== 'update') return [head];
  return [
    head,
    ...renames.map(
      ({ from, to }) => `    ${paint('yellow', visible(`${from} becomes ${to}, with its data`))}`,
    ),
    ...hides.map((hidden) => `    ${paint('red', hiddenText(hidden))}`),
    ...diff.map(
      ({ path, from, to }) =>
        `    ${visible(path)}: ${paint('red', valueText(from))} -> ${paint('green', valueText(to))}`,
    ),
  ];
}

const hiddenText = ({
  field,
  records,
}: {
  readonly field: string;
  readonly records: number;
}): string =>
  visible(
    `- ${field} is taken away: ${things(records, 'record')} with a value, kept where nobody reads it`,
  );

function obstacleLines({ obstacles = [] }: Plan, paint: Paint): readonly string[] {
  if (obstacles.length === 0) return [];
  const lines = obstacles.map(({ path, message }) =>
    paint('red', visible(path === '' ? `! ${message}` : `! ${path}: ${message}`)),
  );
  return ['', 'It would be refused:', ...lines];
}

function valueText(value: unknown): string {
  if (value === null) return '(nothing)';
  const text = visible(JSON.stringify(value) ?? '');
  return shortened(text, MAX_VALUE);
}

/* What became of an import, as people read it. */

interface Result {
  readonly configResults: Readonly<
    Record<string, { readonly success: boolean; readonly error?: string }>
  >;
  readonly moduleResults: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          {
            readonly created: number;
            readonly updated: number;
            readonly deleted: number;
            readonly failed: number;
            readonly errors: readonly string[];
          }
        >
      >
    >
  >;
}

/** `answer`: what `POST /state/import` answers to the import of `plan`. */
export function resultLines(
  answer: unknown,
  plan: Plan,
  paint: Paint,
): { readonly lines: readonly string[]; readonly complete: boolean } {
  const { configResults, moduleResults } = answer as Result;
  const failures: string[] = [];
  const changed = new Set(
    changesOf(plan).flatMap(({ type, module }) => (type === 'config' ? [module] : [])),
  );
  let configs = 0;
  let done = 0;
  for (const [module, { success, error }] of Object.entries(configResults)) {
    if (!success) failures.push(`${module} configuration: ${error}`);
    else if (changed.has(module)) configs += 1;
  }
  for (const [module, types] of Object.entries(moduleResults)) {
    for (const [type, { created, updated, deleted, errors }] of Object.entries(types)) {
      done += created + updated + deleted;
      failures.push(...errors.map((error) => `${module} ${type}: ${error}`));
    }
  }
  const what = [
    ...(done > 0 ? [things(done, 'document')] : []),
    ...(configs > 0 ? [things(configs, 'configuration')] : []),
  ].join(' and ');
  if (failures.length === 0)
    return { lines: [paint('green', `Applied: ${what}.`)], complete: true };
  const lines = [
    ...failures.map((failure) => paint('red', visible(`FAILED  ${failure}`))),
    `Changed before that: ${what || 'nothing'}. Mend it and apply again.`,
  ];
  return { lines, complete: false };
}
