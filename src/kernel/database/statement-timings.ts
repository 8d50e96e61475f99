/**
 * How long statements take, by what they do to which table: what monitoring and the advice for operators are made
 * from. Holds figures only, never texts or values, and at most a few hundred kinds of statements.
 */
import type { Statement } from './database.ts';

/** What a statement does, as far as its text tells. */
export interface StatementKind {
  readonly operation: 'select' | 'insert' | 'update' | 'delete' | 'other';
  /** As in the catalogue, `schema.table`; empty for statements about no table of a named schema. */
  readonly table: string;
}

/** All times in ms, from handing the statement over to its answer: waiting behind others on the same connection counts. */
export interface StatementFigures extends StatementKind {
  readonly count: number;
  readonly total: number;
  /** Upper bounds of the part of the scale that the value falls into: at most 30 % too high. */
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

export interface StatementTimings {
  note(statement: Statement, ms: number): void;
  /** Since the start of this process. */
  figures(): readonly StatementFigures[];
}

export interface TimingsOptions {
  /** Told once per kind; the answer is called with the seconds of each of its statements. */
  readonly observer?: (kind: StatementKind) => (seconds: number) => void;
}

/** The scale: its first part ends here, and each of the following ones is so much longer. */
const FIRST_MS = 0.1;
const FACTOR = 1.3;
/** The last part holds everything above 20 s. */
const PARTS = 48;
/** Kinds that are told apart. Operators' own statements can name any table. */
const MAX_KINDS = 400;
/** Names of prepared statements whose kinds are remembered. */
const MAX_NAMES = 5_000;
const beyond: StatementKind = { operation: 'other', table: '' };

interface Series {
  readonly kind: StatementKind;
  readonly observe: ((seconds: number) => void) | undefined;
  readonly counts: Uint32Array;
  count: number;
  total: number;
  max: number;
}

export function createStatementTimings({ observer }: TimingsOptions = {}): StatementTimings {
  const all = new Map<string, Series>();
  const byName = new Map<string, Series>();

  const open = (kind: StatementKind): Series => {
    const key = `${kind.operation} ${kind.table}`;
    const known = all.get(key);
    if (known) return known;
    if (all.size >= MAX_KINDS && kind !== beyond) return open(beyond);
    const series = {
      kind,
      observe: observer?.(kind),
      counts: new Uint32Array(PARTS),
      count: 0,
      total: 0,
      max: 0,
    };
    all.set(key, series);
    return series;
  };

  function seriesOf({ name, text }: Statement): Series {
    const known = name === undefined ? undefined : byName.get(name);
    if (known) return known;
    const series = open(statementKind(text));
    if (name !== undefined) {
      // Names go with the schemas that they were made for; beginning anew is cheaper than keeping track.
      if (byName.size >= MAX_NAMES) byName.clear();
      byName.set(name, series);
    }
    return series;
  }

  return {
    note(statement, ms) {
      const series = seriesOf(statement);
      const part = partOf(ms);
      series.counts[part] = (series.counts[part] ?? 0) + 1;
      series.count += 1;
      series.total += ms;
      if (ms > series.max) series.max = ms;
      series.observe?.(ms / 1000);
    },
    figures: () => [...all.values()].map(figuresOf),
  };
}

const partOf = (ms: number): number =>
  ms <= FIRST_MS ? 0 : Math.min(PARTS - 1, Math.ceil(Math.log(ms / FIRST_MS) / Math.log(FACTOR)));

function figuresOf({ kind, counts, count, total, max }: Series): StatementFigures {
  const below = (share: number): number => {
    let seen = 0;
    for (const [part, number] of counts.entries()) {
      seen += number;
      if (seen >= share * count) return Math.min(max, FIRST_MS * FACTOR ** part);
    }
    return max;
  };
  return { ...kind, count, total, p50: below(0.5), p95: below(0.95), max };
}

/** Stands for a quote within a quoted name while names are looked for: each then ends at the next quote. */
const INNER_QUOTE = '\u0000';
const name = String.raw`(?:"[^"]+"|[a-z_]\w*)`;
const change = new RegExp(
  String.raw`\b(insert\s+into|update|delete\s+from)\s+(?:only\s+)?(${name}\.${name})`,
  'gi',
);
const source = new RegExp(String.raw`\b(?:from|join)\s+(?:only\s+)?(${name}\.${name})`, 'gi');

/** The platform's own tables: a statement that also touches others is about those. */
const isOwn = (table: string): boolean =>
  table.startsWith('penstock.') || table.startsWith('pg_catalog.');

/** The first change of a table of data decides, else the outermost such table that is read: relations that are filled in stand inside. */
export function statementKind(text: string): StatementKind {
  // `extract(epoch from s.ends_at)` reads no table.
  const bare = text
    .replace(/'(?:[^']|'')*'/g, `''`)
    .replace(/\bextract\s*\(\s*\w+\s+from\b/gi, 'extract(')
    .replaceAll('""', INNER_QUOTE);
  const changed = about(named(bare, change));
  if (changed)
    return { operation: changed.verb as 'insert' | 'update' | 'delete', table: changed.table };
  const reads = /^\s*(?:select|with)\b/i.test(bare);
  return {
    operation: reads ? 'select' : 'other',
    table: reads ? (about(outermostFirst(named(bare, source)))?.table ?? '') : '',
  };
}

interface Named {
  readonly verb: string;
  readonly table: string;
  /** Parentheses around it. */
  readonly depth: number;
}

const about = (list: readonly Named[]): Named | undefined =>
  list.find(({ table }) => !isOwn(table)) ?? list[0];

const outermostFirst = (list: readonly Named[]): readonly Named[] =>
  list.toSorted((a, b) => a.depth - b.depth);

const [OPEN, CLOSE] = [0x28, 0x29];

/** In one walk: this is done for every statement without a name, and texts of filters are long. */
function named(text: string, pattern: RegExp): readonly Named[] {
  let [depth, at] = [0, 0];
  return Array.from(text.matchAll(pattern), (match): Named => {
    for (; at < match.index; at += 1) {
      const code = text.charCodeAt(at);
      if (code === OPEN) depth += 1;
      else if (code === CLOSE) depth -= 1;
    }
    return {
      verb: (match[1] ?? '').slice(0, 6).toLowerCase(),
      table: plain(match.at(-1) ?? ''),
      depth,
    };
  });
}

/** `app."Post"` as `app.Post`. */
const plain = (qualified: string): string =>
  qualified.replaceAll('"', '').replaceAll(INNER_QUOTE, '"');
