/** The prompts of one request: jobs for which its credential has every tool. */
import {
  type GetPromptResult,
  type ListPromptsResult,
  ProtocolError,
  ProtocolErrorCode,
} from '@modelcontextprotocol/server';
import { PenstockError } from '../../kernel/errors.ts';
import { jsonSchema } from '../../kernel/operations/json-schema.ts';
import type { Prompt, PromptRegistry } from '../../kernel/operations/prompts.ts';
import type { Toolbox } from './toolbox.ts';

export interface Prompts {
  list(): ListPromptsResult;
  /** Throws a protocol error for a prompt that is not there, and for arguments that do not fit. */
  get(name: string, given: Readonly<Record<string, string>>): GetPromptResult;
}

/** A platform without modules has none. */
export const noPrompts: Pick<PromptRegistry, 'all'> = { all: () => [] };

export function createPrompts(registry: Pick<PromptRegistry, 'all'>, toolbox: Toolbox): Prompts {
  const groups = new Map(toolbox.all.map(({ name, group }) => [name, group]));
  const usable = registry.all().filter(({ tools }) => tools.every((name) => groups.has(name)));
  return {
    list: () => ({ prompts: usable.map(onWire) }),
    get(name, given) {
      const prompt = usable.find((one) => one.name === name);
      if (!prompt) throw invalidParams(`There is no prompt ${name}: prompts/list names them`);
      const needed = [...new Set(prompt.tools.flatMap((tool) => groups.get(tool) ?? []))];
      const text = `${howToReach(needed, toolbox)}\n\n${rendered(prompt, given)}`;
      return {
        description: prompt.description,
        messages: [{ role: 'user', content: { type: 'text', text } }],
      };
    },
  };
}

function onWire({ name, title, description, arguments: declared }: Prompt) {
  const { properties = {}, required = [] } = jsonSchema(declared);
  return {
    name,
    title,
    description,
    arguments: Object.entries(properties).map(([key, { description: about = '' }]) => ({
      name: key,
      description: about,
      required: required.includes(key),
    })),
  };
}

function rendered(prompt: Prompt, given: Readonly<Record<string, string>>): string {
  try {
    return prompt.render(given);
  } catch (error) {
    if (!(error instanceof PenstockError)) throw error;
    throw invalidParams(`Invalid arguments for ${prompt.name}: ${error.message}`);
  }
}

const invalidParams = (message: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, message);

/** Which modules the tools belong to, and what to do about those that the address does not load. */
function howToReach(needed: readonly string[], { dynamic, groups }: Toolbox): string {
  const loaded = new Set(groups().flatMap(({ name, loaded: is }) => (is ? [name] : [])));
  const missing = needed.filter((group) => !loaded.has(group));
  const first = `The tools for this are of the modules ${needed.join(', ')}.`;
  if (missing.length === 0) return `${first} All of them are loaded.`;
  const modules = [...new Set([...loaded, ...needed])].join(',');
  return dynamic
    ? `${first} Those of ${missing.join(', ')} are not loaded: run them with \`call_tool\`.`
    : `${first} Those of ${missing.join(', ')} are not loaded: ask for a connection to the address with \`?modules=${modules}\` before you begin.`;
}
