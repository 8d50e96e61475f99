/**
 * Prompts: the common jobs, told to a model step by step with the tools that do them. Modules declare theirs beside
 * their operations; the MCP surface lists those whose tools a credential may use.
 */
import type { Static, TObject } from 'typebox';
import { Compile } from 'typebox/compile';
import { jsonSchema } from './json-schema.ts';
import { invalidInput, problemsOf, type ValidatorError } from './problems.ts';
import { unknownInput } from './unknown-input.ts';

/** What a module writes. */
export interface PromptDefinition<A extends TObject> {
  /** Lower case words joined by `_`. */
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** Texts alone: the protocol knows no others. Each has a description. */
  readonly arguments: A;
  /** Names of all tools that the text tells the model to call, in the order in which it first does. */
  readonly tools: readonly string[];
  /** Markdown; names of tools stand in backticks. */
  readonly text: (given: Static<A>) => string;
}

/** What the surface reads. */
export interface Prompt extends Omit<PromptDefinition<TObject>, 'text'> {
  /** The text for these arguments; throws one 400 with everything that is wrong. An empty text is no argument. */
  render(given: Readonly<Record<string, string>>): string;
}

const promptName = /^[a-z]+(_[a-z]+)*$/;

/** Declares a prompt; throws at start when a part is missing. */
export function definePrompt<const A extends TObject>(definition: PromptDefinition<A>): Prompt {
  const { name, arguments: declared, tools, text } = definition;
  const properties = Object.entries(jsonSchema(declared).properties ?? {});
  const wrong = properties.find(
    ([, { type, description }]) => type !== 'string' || description === undefined,
  );
  if (!promptName.test(name) || tools.length === 0 || wrong)
    throw new Error(
      `Prompt ${name}: it needs a name of lower case words, tools, and described texts as arguments`,
    );
  const check = argumentCheck(declared);
  return Object.freeze({
    ...definition,
    render: (given: Readonly<Record<string, string>>) => text(check(given) as Static<A>),
  });
}

/** The validator is made when the prompt is first asked for. */
function argumentCheck(
  declared: TObject,
): (given: Readonly<Record<string, string>>) => Readonly<Record<string, string>> {
  let validator: ReturnType<typeof Compile> | undefined;
  const names = Object.keys(declared.properties);
  return (given) => {
    const filled = Object.fromEntries(
      Object.entries(given)
        .map(([name, value]) => [name, value.trim()] as const)
        .filter(([, value]) => value !== ''),
    );
    validator ??= Compile(declared);
    const unknown = unknownInput(
      Object.keys(filled).filter((name) => !names.includes(name)),
      names,
    );
    const found = validator.Check(filled)
      ? []
      : problemsOf(
          jsonSchema(declared),
          validator.Errors(filled) as unknown as readonly ValidatorError[],
          'arguments',
        );
    if (unknown.length + found.length > 0) throw invalidInput([...unknown, ...found]);
    return filled;
  };
}

/** All prompts of the modules that serve now. */
export interface PromptRegistry {
  /** Replaces everything that `owner` had; an empty list withdraws it. Throws when two prompts have one name. */
  replace(owner: string, prompts: readonly Prompt[]): void;
  /** By name. */
  all(): readonly Prompt[];
}

export function createPromptRegistry(): PromptRegistry {
  const byOwner = new Map<string, readonly Prompt[]>();
  return {
    replace(owner, prompts) {
      const others = [...byOwner].flatMap(([name, list]) => (name === owner ? [] : list));
      const names = [...others, ...prompts].map(({ name }) => name);
      const twin = names.find((name, i) => names.indexOf(name) !== i);
      if (twin) throw new Error(`There are two prompts "${twin}"`);
      byOwner.set(owner, prompts);
    },
    all: () =>
      [...byOwner.values()].flat().toSorted((one, other) => (one.name < other.name ? -1 : 1)),
  };
}
