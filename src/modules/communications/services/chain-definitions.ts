/** Chains that are kept under a name: what they say, and how a message is sent by one. */
import type { Kernel } from '../../../host/kernel.ts';
import { invalid } from '../../../kernel/errors.ts';
import { type StateDocument, type StateType, touchesNothing } from '../../../kernel/state.ts';
import {
  allChainDefinitions,
  type ChainDefinitionRow,
  type ChainStep,
  chainDefinitionByName,
  deleteChainDefinition,
  type FallbackStep,
  listChainDefinitions,
  saveChainDefinition,
} from '../chain-queries.ts';
import { messageErrors } from '../errors.ts';

export interface ChainDefinitionInput {
  readonly steps: readonly FallbackStep[];
  readonly allowDuplicate?: boolean | undefined;
  readonly templateName?: string | undefined;
  readonly description?: string | undefined;
}

/** What a request names or writes down itself. */
export interface ChainRequest {
  readonly chain?: string | undefined;
  readonly fallbackChain?: readonly FallbackStep[] | undefined;
  readonly allowDuplicate?: boolean | undefined;
  readonly templateName?: string | undefined;
  readonly subject?: string | undefined;
  readonly body?: string | undefined;
}

export interface ChosenChain {
  /** Under which it is kept, where it is. */
  readonly name: string | null;
  readonly steps: readonly ChainStep[];
  readonly allowDuplicate: boolean;
  readonly templateName: string | undefined;
}

export interface ChainDefinitions {
  list(filter: {
    readonly skip: number;
    readonly limit: number;
    readonly search?: string | undefined;
  }): Promise<{ readonly rows: readonly ChainDefinitionRow[]; readonly count: number }>;
  /** Throws CHAIN_DEFINITION_NOT_FOUND. */
  get(name: string): Promise<ChainDefinitionRow>;
  /** In the place of an earlier one. */
  save(name: string, input: ChainDefinitionInput): Promise<ChainDefinitionRow>;
  /** Throws CHAIN_DEFINITION_NOT_FOUND. */
  remove(name: string): Promise<void>;
  /** What a message is sent by; `timeout` for steps that name none. Throws CHAIN_DEFINITION_NOT_FOUND. */
  choose(request: ChainRequest, timeout: number): Promise<ChosenChain>;
}

const rowOf = (
  name: string,
  { steps, allowDuplicate = false, templateName, description }: ChainDefinitionInput,
) => ({
  name,
  // Nothing beside what a step says, so that equal chains are equal documents.
  steps: steps.map(({ channel, timeout, until }) => ({
    channel,
    ...(timeout === undefined ? {} : { timeout }),
    ...(until === undefined ? {} : { until }),
  })),
  allowDuplicate,
  templateName: templateName ?? null,
  description: description || null,
});

export function createChainDefinitions({ database }: Pick<Kernel, 'database'>): ChainDefinitions {
  const get = async (name: string): Promise<ChainDefinitionRow> => {
    const row = await chainDefinitionByName(database, name);
    if (!row) throw messageErrors.CHAIN_DEFINITION_NOT_FOUND();
    return row;
  };
  return {
    get,
    list: (filter) => listChainDefinitions(database, filter),
    save: (name, input) => saveChainDefinition(database, rowOf(name, input)),
    async remove(name) {
      if (!(await deleteChainDefinition(database, name)))
        throw messageErrors.CHAIN_DEFINITION_NOT_FOUND();
    },
    async choose(request, timeout) {
      const { chain, fallbackChain = [], templateName } = request;
      const kept = chain === undefined ? undefined : await get(chain);
      if (kept?.steps.length === 0)
        throw invalid('chain', 'readable', 'cannot be read as it is stored: store it anew');
      const isSaid = [templateName, request.subject, request.body].some((one) => one !== undefined);
      return {
        name: kept?.name ?? null,
        steps: (kept?.steps ?? fallbackChain).map((step) => ({
          timeout,
          until: 'accepted',
          ...step,
        })),
        allowDuplicate: request.allowDuplicate ?? kept?.allowDuplicate ?? false,
        templateName: isSaid ? templateName : (kept?.templateName ?? undefined),
      };
    },
  };
}

/** Chains as state; `document` is what one looks like. */
export const chainState = (
  database: Kernel['database'],
  document: StateType['document'],
): StateType => ({
  module: 'communications',
  type: 'messageChains',
  reportDamaged: true,
  priority: 32,
  document,
  keyOf: ({ name }) => String(name),
  touches: touchesNothing,
  export: async () => (await allChainDefinitions(database)).map(documentOf),
  complete: async (_caller, documents) =>
    documents.map(({ document: given }) => {
      const { name, ...input } = given as unknown as ChainDefinitionInput & { name: string };
      return documentOf(rowOf(name, input));
    }),
  apply: (_caller, changes) =>
    database.transaction(async (transaction) => {
      for (const { key, after } of changes)
        if (after)
          await saveChainDefinition(
            transaction,
            rowOf(key, after as unknown as ChainDefinitionInput),
          );
        else await deleteChainDefinition(transaction, key);
    }),
});

/** In one form: what is not said is left out. */
const documentOf = ({
  name,
  steps,
  allowDuplicate,
  templateName,
  description,
}: Omit<ChainDefinitionRow, 'createdAt' | 'updatedAt'>): StateDocument => ({
  name,
  steps,
  ...(allowDuplicate ? { allowDuplicate } : {}),
  ...(templateName === null ? {} : { templateName }),
  ...(description === null ? {} : { description }),
});
