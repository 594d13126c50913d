#include "frontends/replay/remote_settings.hpp"

namespace crucible::replay {

store::RemoteSettings remote_settings(const config::Settings& settings) {
  store::RemoteSettings out;
  out.urls = settings.list("store.remote");
  out.trust = settings.text("store.remote_trust");
  for (const std::string& file : settings.list("store.keys")) out.keys.emplace_back(file);
  out.sign = settings.text("store.sign");
  out.may_write = settings.flag("store.remote_write");
  out.timeout_ms = settings.number("store.remote_timeout_ms");
  out.ca_file = settings.text("store.ca_file");
  out.authorization_file = settings.text("store.remote_auth_file");
  return out;
}

}  // namespace crucible::replay
