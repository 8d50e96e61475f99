/** The router: what can be set about the client surface as a whole. */
import type { ConfigHandle } from '../../kernel/config/definition.ts';
import { defineModule } from '../../kernel/module.ts';
import { type RouterConfig, routerConfig } from './config.ts';

export type { RouterConfig } from './config.ts';

export interface RouterService {
  readonly config: ConfigHandle<RouterConfig>;
}

export const router = defineModule<typeof routerConfig.schema, RouterService>({
  name: 'router',
  description: 'The client surface: cross-origin rules, limits, addresses',
  requires: {},
  essential: true,
  config: routerConfig,
  async start({ config }) {
    return { service: { config }, operations: [] };
  },
});
