/** What can be configured about GraphQL while it runs. */
export interface GraphqlOptions {
  readonly enabled: boolean;
  /** Whether clients may ask for the schema, and errors suggest names out of it. */
  readonly introspection: boolean;
  /** Whether browsers get a page to try things out on. */
  readonly explorer: boolean;
  /** Levels of fields in an operation. */
  readonly maxDepth: number;
  /** Objects that an operation may answer, as far as its text tells. */
  readonly maxComplexity: number;
  /** Fields of an operation that are given another name. */
  readonly maxAliases: number;
  /** Fields at the root of an operation; each is an operation of its own. */
  readonly maxRootFields: number;
}

/** A live source of options. `current` answers the same object until something changed. */
export interface GraphqlOptionsSource {
  current(): GraphqlOptions;
  onChange(listener: () => void): void;
}

/** Without configuration: on, and closed. */
export const defaultGraphqlOptions: GraphqlOptions = {
  enabled: true,
  introspection: false,
  explorer: false,
  maxDepth: 10,
  maxComplexity: 1_000,
  maxAliases: 20,
  maxRootFields: 20,
};

export const fixedGraphqlOptions = (
  options: Partial<GraphqlOptions> = {},
): GraphqlOptionsSource => {
  const current = { ...defaultGraphqlOptions, ...options };
  return { current: () => current, onChange: () => undefined };
};
