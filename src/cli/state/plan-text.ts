/** A plan as people read it. */
import { shortened } from '../../kernel/text.ts';
import type { Colour, Paint } from './terminal.ts';

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
}

/** What `POST /state/plan` answers. */
export interface Plan {
  readonly plan: readonly Entry[];
  readonly checksum: string;
  readonly warnings: readonly string[];
}

const signs = { create: '+', update: '~', delete: '-', noop: ' ' } as const;
const colours: Readonly<Record<Entry['action'], Colour>> = { create: 'green', update: 'yellow', delete: 'red', noop: 'grey' };
/** Characters of one value; the rest is in the files. */
const MAX_VALUE = 120;

export const changesOf = ({ plan }: Plan): readonly Entry[] => plan.filter(({ action }) => action !== 'noop');

export function summaryOf(plan: Plan): { readonly creates: number; readonly updates: number; readonly deletes: number } {
  const count = (wanted: Entry['action']): number => plan.plan.filter(({ action }) => action === wanted).length;
  return { creates: count('create'), updates: count('update'), deletes: count('delete') };
}

export function planLines(plan: Plan, paint: Paint): readonly string[] {
  const { creates, updates, deletes } = summaryOf(plan);
  const warnings = plan.warnings.map((warning) => paint('yellow', `! ${warning}`));
  const changes = changesOf(plan).flatMap((entry) => entryLines(entry, paint));
  if (changes.length === 0) return [...warnings, 'Nothing to do: the platform is as the files say.'];
  return [...warnings, ...changes, '', `${creates} to create, ${updates} to change, ${deletes} to take away.`];
}

function entryLines({ action, module, type, key, diff }: Entry, paint: Paint): readonly string[] {
  const name = type === 'config' ? `${module} configuration` : `${module} ${type} ${visible(key)}`;
  const head = paint(colours[action], `${signs[action]} ${name}`);
  if (action !== 'update') return [head];
  return [head, ...diff.map(({ path, from, to }) => `    ${path}: ${paint('red', shown(from))} -> ${paint('green', shown(to))}`)];
}

/** Controls could move the cursor of whoever reads it. */
const visible = (text: string): string => text.replaceAll(/\p{Cc}/gu, '?');

function shown(value: unknown): string {
  if (value === null) return '(nothing)';
  const text = visible(JSON.stringify(value) ?? '');
  return shortened(text, MAX_VALUE);
}
