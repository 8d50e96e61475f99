/** Puts the parts of MCP together; loaded with the first request. */
import type { OperationRegistry } from '../../kernel/operations/registry.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';
import { createMcpHandlers, type McpHandlers, type McpParts } from './handle-request.ts';
import { createResources } from './resources.ts';
import { createCatalogue } from './toolbox.ts';

export interface McpEngineParts extends Omit<McpParts, 'catalogue' | 'resources'> {
  readonly registry: OperationRegistry;
  readonly client: SurfaceOptionsSource;
}

export function createMcpEngine(parts: McpEngineParts): McpHandlers {
  const { registry, source, surface, client, log } = parts;
  const resources = createResources(registry, (name) =>
    (name === 'admin' ? surface : client).current(),
  );
  return createMcpHandlers({
    ...parts,
    resources,
    catalogue: createCatalogue(registry, source, log),
  });
}
