/** The prelude as one script: the files of `prelude/`, without their types and imports, in one closure. */
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';

/** Each after those that it builds on. */
const files = ['core', 'globals', 'bytes', 'web', 'context', 'reply', 'run'] as const;

const exportWords = /^export (?=(?:async )?(?:const|let|function|class))/gm;

const textOf = (file: string): string =>
  withoutImports(
    stripTypeScriptTypes(readFileSync(new URL(`../prelude/${file}.ts`, import.meta.url), 'utf8')),
  ).replaceAll(exportWords, '');

const withoutImports = (text: string): string =>
  text
    .split(/^import /m)
    .map((part, i) => (i === 0 ? part : part.slice(part.indexOf(';') + 1)))
    .join('');

/** Evaluates to a function that takes the ways out of the isolate and answers the entries. */
export const preludeText = (): string =>
  `(function (post, log, timer, done, postNow, logNow, timerNow, doneNow, ask) { 'use strict';
const now = { post: postNow, log: logNow, timer: timerNow, done: doneNow };
const bridge = { post, log, timer, done, now, ask };
${files.map(textOf).join('\n')}
return [entries.begin, entries.answer, entries.fire, entries.stop, entries.addPackage, entries.use];
})`;

/** Frames of a stack that begin with this are ours. */
export const PRELUDE_FILE = 'penstock:prelude';
