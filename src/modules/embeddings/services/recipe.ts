/** What may be searched, and with which model: what a configuration asks for, checked and filled in. */
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Field } from '../../../data/schema/language/field.ts';
import { shortName } from '../../../data/schema/language/names.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { EmbeddingsConfig } from '../config.ts';
import { embeddingErrors } from '../errors.ts';
import {
  builtInDimensions,
  builtInModel,
  builtInProvider,
  type ModelChoice,
  noProvider,
  openaiProvider,
  type Provider,
  type Similarity,
  withoutInstructions,
} from '../model.ts';
import type { Recipe } from '../queries/configs.ts';
import { fileFieldsOf, fileSchemaName } from './texts.ts';

/** What somebody asks for; what is left out has a default. */
export interface ConfigInput {
  readonly schemaName: string;
  readonly targetField: string;
  readonly sourceFields: readonly string[];
  readonly provider?: Provider;
  readonly model?: string;
  readonly dimensions?: number;
  readonly similarity?: Similarity;
  readonly language?: string;
  readonly fieldOptions?: Recipe['fieldOptions'];
  readonly sourceFieldAllowlist?: readonly string[];
  readonly enabled?: boolean;
  readonly backfill?: 'auto' | 'none';
}

/** Schemas of operators' own, which say that others may build on them, and files. Throws 403. */
export function requireEligible(schema: CompiledSchema): void {
  if (schema.name === fileSchemaName) return;
  const isTheirs = schema.ownerModule === 'database' && !schema.name.startsWith('_');
  if (!isTheirs || !schema.modelOptions.conduit.permissions.extendable)
    throw embeddingErrors.SCHEMA_NOT_EXTENDABLE();
}

const secretName = /passw|token|secret|credential|private|apikey|api_key|otp|pin$|hash$|salt$/i;

/** Whether a field sounds like a secret: it must be named twice. */
export const isSensitive = (path: string): boolean => secretName.test(path);

/** Throws 400 for fields that hold no text, and for those that had better not leave the record. */
export function requireSources(
  schema: CompiledSchema,
  fields: readonly string[],
  allowed: ReadonlySet<string>,
): void {
  fields.forEach((path, at) => {
    const place = `sourceFields.${at}`;
    const found = fieldAt(schema, path.split('.')) ?? fileAt(schema, path);
    if (!found)
      throw invalid(
        place,
        'field',
        `"${shortName(path)}" is neither a text nor a file of ${schema.name}`,
      );
    // What nobody is shown must not be told by an order either.
    if (found.hidden) throw invalid(place, 'hidden', `"${shortName(path)}" is hidden`);
    if (isSensitive(path) && !allowed.has(path))
      throw invalid(
        place,
        'sensitive',
        `"${shortName(path)}" sounds like a secret: name it in sourceFieldAllowlist if it is none`,
      );
  });
}

/** The text at a path, and whether something on the way is hidden. */
function fieldAt(
  { tree }: CompiledSchema,
  path: readonly string[],
): { readonly hidden: boolean } | undefined {
  let field: Field | undefined = tree;
  let hidden = false;
  for (const step of path) {
    const inner: Field | undefined = elementOf(field);
    field = inner?.kind === 'object' ? inner.fields.get(step) : undefined;
    if (!field) return undefined;
    hidden ||= field.hidden;
  }
  return elementOf(field)?.kind === 'string' ? { hidden } : undefined;
}

/** A field, not within another one, that holds files. */
function fileAt(schema: CompiledSchema, path: string): { readonly hidden: boolean } | undefined {
  if (fileFieldsOf(schema, [path]).length === 0) return undefined;
  const field = schema.tree.fields.get(path);
  return { hidden: schema.relations.has(path) && (field?.hidden ?? true) };
}

const elementOf = (field: Field | undefined): Field | undefined =>
  field?.kind === 'array' ? elementOf(field.items) : field;

/** Throws 400. */
export function recipeOf(config: EmbeddingsConfig, input: ConfigInput): Recipe {
  const { sourceFields, similarity = 'cosine', language = 'simple', fieldOptions = {} } = input;
  requireFieldOptions(sourceFields, fieldOptions);
  return { sourceFields, language, fieldOptions, ...choiceOf(config, input, similarity) };
}

/** PostgreSQL tells four classes of words apart; fields without a weight have 1. */
const MAX_WEIGHTS = 4;

function requireFieldOptions(fields: readonly string[], options: Recipe['fieldOptions']): void {
  for (const field of Object.keys(options))
    if (!fields.includes(field))
      throw invalid(
        `fieldOptions.${shortName(field)}`,
        'oneOf',
        `"${shortName(field)}" is not one of sourceFields`,
      );
  const weights = new Set(fields.map((field) => options[field]?.weight ?? 1));
  if (weights.size > MAX_WEIGHTS)
    throw invalid('fieldOptions', 'count', `at most ${MAX_WEIGHTS} different weights`);
}

function choiceOf(
  config: EmbeddingsConfig,
  input: ConfigInput,
  similarity: Similarity,
): ModelChoice {
  const provider = input.provider ?? config.defaultProvider;
  if (provider === noProvider)
    return { provider, model: '', dimensions: 0, similarity, ...withoutInstructions };
  if (provider === builtInProvider) return builtInChoice(input, similarity);
  return openaiChoice(config, input, similarity);
}

function builtInChoice({ model, dimensions }: ConfigInput, similarity: Similarity): ModelChoice {
  if (model !== undefined && model !== builtInModel)
    throw invalid('model', 'oneOf', `the built-in model is ${builtInModel}`);
  if (dimensions !== undefined && dimensions !== builtInDimensions)
    throw invalid('dimensions', 'const', `the built-in model has ${builtInDimensions}`);
  return {
    provider: builtInProvider,
    model: builtInModel,
    dimensions: builtInDimensions,
    similarity,
    ...withoutInstructions,
  };
}

function openaiChoice(
  { providers }: EmbeddingsConfig,
  input: ConfigInput,
  similarity: Similarity,
): ModelChoice {
  const { endpoint, models, defaultModel } = providers[openaiProvider];
  if (endpoint === '')
    throw invalid('provider', 'config', 'set providers.openai-compatible.endpoint first');
  const requested = input.model ?? (defaultModel === '' ? models[0]?.name : defaultModel);
  const known = models.find(({ name }) => name === requested);
  if (!known) throw invalid('model', 'oneOf', 'must be one of providers.openai-compatible.models');
  if (input.dimensions !== undefined && input.dimensions !== known.dimensions)
    throw invalid('dimensions', 'const', `${shortName(known.name)} has ${known.dimensions}`);
  return {
    provider: openaiProvider,
    model: known.name,
    dimensions: known.dimensions,
    similarity,
    queryPrefix: known.queryPrefix ?? '',
    passagePrefix: known.passagePrefix ?? '',
    sendDimensions: known.sendDimensions ?? false,
  };
}

/** Whether vectors made with one can be used for the other. */
export const isSameRecipe = (one: Recipe, other: Recipe): boolean =>
  JSON.stringify(partsOf(one)) === JSON.stringify(partsOf(other));

const partsOf = (recipe: Recipe) => [
  recipe.sourceFields,
  recipe.provider,
  recipe.model,
  recipe.dimensions,
  recipe.similarity,
  recipe.language,
  recipe.queryPrefix,
  recipe.passagePrefix,
  recipe.sendDimensions,
  Object.entries(recipe.fieldOptions)
    .map(([field, { weight, language }]) => [field, weight ?? 1, language ?? recipe.language])
    .sort(),
];
